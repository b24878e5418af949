// SPDX-License-Identifier: MIT
#include <cmath>

#include "base/thread_pool.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_rbf_kernel(Infer& c) {
  require_ranks(c, {2, 2});
  c.require_equal(c.dim(0, 1), c.dim(1, 1), "columns of x and vectors");
  c.result(c.element(0), {c.dim(0, 0), c.dim(1, 0)});
}

void eval_rbf_kernel(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), ElementType::f32);
  const Tensor vectors = dense_tensor(c.in(1), ElementType::f32);
  const Dims dims{x.dims()[0], vectors.dims()[0]};
  const int64_t features = x.dims()[1];
  const Tensor y(ElementType::f32, dims);
  const auto gamma = static_cast<float>(c.number("gamma"));
  parallel_for(c.pool, dims[0], 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * dims[1]; i < end * dims[1]; ++i) {
      const float* a = x.as<float>() + i / dims[1] * features;
      const float* b = vectors.as<float>() + i % dims[1] * features;
      float sum = 0;
      for (int64_t k = 0; k < features; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
      y.as<float>()[i] = std::exp(-gamma * sum);
    }
  });
  store_tensor(y, c.out(0, dims));
}

}  // namespace

static const Register rbf_kernel{{
    .name = "rbf_kernel",
    .doc = "exp(-gamma * |x_i - v_j|^2) for each row x_i of x and v_j of vectors.",
    .operands = {{"x", kFloats, Arity::one, 'T'}, {"vectors", kFloats, Arity::one, 'T'}},
    .attributes = {{"gamma", AttributeKind::number}},
    .infer = infer_rbf_kernel,
    .eval = eval_rbf_kernel,
}};

}  // namespace lathe
