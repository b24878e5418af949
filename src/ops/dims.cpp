// SPDX-License-Identifier: MIT
#include "ir/infer.h"

namespace lathe {

static const Register dims_op{{
    .name = "dims",
    .doc = "An i64[n] tensor of dims, evaluated once their symbols are bound.",
    .attributes = {{"values", AttributeKind::dims}},
    .structural = Structural::dims,
    .infer =
        [](Infer& c) {
          const std::vector<Dim>& values = c.dims_attribute("values");
          c.result(ElementType::i64, {static_cast<int64_t>(values.size())});
          c.result_elements(values);
        },
}};

}  // namespace lathe
