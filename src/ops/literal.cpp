// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/support/symbolic.h"

namespace lathe {

static const Register literal{{
    .name = "literal",
    .doc = "A constant tensor.",
    .structural = Structural::literal,
    .infer =
        [](Infer& c) {
          const LiteralRef& value = c.instruction().literal();
          c.check(value != nullptr, "instruction '%{}' has no tensor",
                  c.instruction().result()->name());
          const Tensor& tensor = value->tensor;
          c.result(tensor.type(), constant_dims(tensor.dims()));
          const bool is_integral =
              is_integer(tensor.type()) || tensor.type() == ElementType::boolean;
          if (is_integral && tensor.count() <= kMaxSymbolicElements && !value->bindable) {
            c.result_elements(constant_dims(integer_values(tensor)));
          }
        },
}};

}  // namespace lathe
