// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/support/symbolic.h"

namespace lathe {

static const Register literal{{
    .name = "literal",
    .doc = "A constant tensor. With sources, `pack` in texts: what a kernel packs them to, in its "
           "own format; `hashes`: of the sources that were packed.",
    .operands = {{.name = "sources", .arity = Arity::variadic}},
    .attributes = {{"format", AttributeKind::text, false},
                   {"hashes", AttributeKind::text, false},
                   {"absent", AttributeKind::integers, false}},
    .structural = Structural::literal,
    .infer =
        [](Infer& c) {
          const LiteralRef& value = c.instruction().literal();
          c.check(value != nullptr, "instruction '%{}' has no tensor",
                  c.instruction().result()->name());
          const Tensor& tensor = value->tensor;
          const bool bytes = tensor.type() == ElementType::u8 && tensor.rank() == 1;
          const Attributes& attributes = c.instruction().attributes();
          const bool has_both = find_attribute(attributes, "format") != nullptr &&
                                find_attribute(attributes, "hashes") != nullptr;
          c.check(c.count() == 0 || (bytes && has_both),
                  "packed sources are u8[bytes] with a format and hashes, got {}",
                  to_string(tensor.type(), tensor.dims()));
          c.result(tensor.type(), constant_dims(tensor.dims()));
          const bool is_integral =
              is_integer(tensor.type()) || tensor.type() == ElementType::boolean;
          if (is_integral && tensor.count() <= kMaxSymbolicElements && !value->bindable) {
            c.result_elements(constant_dims(integer_values(tensor)));
          }
        },
}};

}  // namespace lathe
