// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {

static const Register eye_like{{
    .name = "eye_like",
    .doc = "A matrix of x's shape, 1 on diagonal k and 0 elsewhere.",
    .operands = {{"x"}},
    .attributes = {{"dtype", AttributeKind::element_type, false}, {"k", 0}},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) == 2, "x has rank {}, expected 2", c.rank(0));
          const ElementType type =
              c.has_attribute("dtype") ? c.element_type("dtype") : c.element(0);
          c.check(type != ElementType::string, "the result's element type is {}", to_string(type));
          c.result(type, c.dims(0));
        },
    .eval =
        [](Evaluation& c) {
          const TensorView& x = c.in(0);
          const TensorView& target = c.out(0, x.extents());
          const ConvertedResult out(target, arithmetic_type(target.type));
          const int64_t k = std::clamp(c.integer("k"), -x.dims[0], x.dims[1]);
          with_number_type(out.view().type, [&]<class T>(T*) {
            for_each_index(x.extents(), [&](std::span<const int64_t> at) {
              out.view().as<T>()[offset_of(out.view(), at)] = static_cast<T>(at[1] - at[0] == k);
            });
          });
          out.store();
        },
}};

}  // namespace lathe
