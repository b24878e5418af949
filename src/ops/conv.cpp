// SPDX-License-Identifier: MIT
#include "ops/support/convolution.h"

namespace lathe {

static const Register conv{{
    .name = "conv",
    .doc =
        "Convolution of x [n, channels, spatial…] with w [out channels, channels/group, kernel…].",
    .operands = {{.name = "x", .types = kFloats, .group = 1},
                 {.name = "w", .types = kFloats, .group = 1},
                 {.name = "bias", .types = kFloats, .arity = Arity::optional, .group = 1}},
    .attributes = window_attributes({{"group", 1}}),
    .infer =
        [](Infer& c) {
          if (c.has(2)) c.require_equal(element_count(c.dims(2)), c.dim(1, 0), "bias and channels");
          c.result(c.element(0), convolution_dims(c, 0, 1));
        },
    .eval =
        [](Evaluation& c) {
          with_sum_type(c.in(0).type, [&]<class T>(T*) {
            if constexpr (std::is_floating_point_v<T>) {
              run_convolution<T>(c, [&](Convolution<T>& product) {
                product.bias = c.has(2) ? &c.in(2) : nullptr;
              });
            }
          });
        },
}};

}  // namespace lathe
