// SPDX-License-Identifier: MIT
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/elimination.h"
#include "ops/support/requirements.h"

namespace lathe {

static const Register inverse{{
    .name = "inverse",
    .doc = "The inverse of each matrix of the last two axes.",
    .operands = {{"x", kFloats}},
    .infer =
        [](Infer& c) {
          require_square_matrices(c, 0);
          c.result(c.element(0), c.dims(0));
        },
    .eval =
        [](Evaluation& c) {
          const Tensor x = dense_tensor(c.in(0), ElementType::f64);
          const DenseResult y(c.out(0), ElementType::f64);
          const int64_t n = x.dims().back();
          for (int64_t i = 0; i < x.count(); ++i) {
            y.as<double>()[i] = i % (n * n) % (n + 1) == 0 ? 1 : 0;
          }
          for (int64_t i = 0; i < x.count(); i += n * n) {
            eliminate(x.as<double>() + i, y.as<double>() + i, n);
          }
          y.store();
        },
}};

}  // namespace lathe
