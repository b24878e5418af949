// SPDX-License-Identifier: MIT
// Wu, Lin and Weng: Probability estimates for multi-class classification by pairwise coupling, the
// second approach, as in LIBSVM.
#include <algorithm>
#include <cmath>

#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_svm_probabilities(Infer& c) {
  const int64_t classes = require_integer(c, "classes", 2, 65535);
  require_rank(c, 0, 2);
  c.require_equal(c.dim(0, 1), classes * (classes - 1) / 2, "pairs of classes");
  c.result(c.element(0), {c.dim(0, 0), classes});
}

// r[i * n + j] is the probability of class i, given class i or j. Iterates p until the gradient of
// the coupling's objective is flat.
void couple(const std::vector<float>& r, size_t n, float* p) {
  std::vector<float> q(n * n), qp(n);
  for (size_t i = 0; i < n; ++i) {
    p[i] = 1 / static_cast<float>(n);
    for (size_t j = 0; j < n; ++j) {
      if (j == i) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  }
  for (int round = 0; round < 100; ++round) {
    float pqp = 0, error = 0;
    for (size_t i = 0; i < n; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < n; ++j) qp[i] += q[i * n + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (size_t i = 0; i < n; ++i) error = std::max(error, std::fabs(qp[i] - pqp));
    if (error < 0.005F / static_cast<float>(n)) break;
    for (size_t i = 0; i < n; ++i) {
      const float step = (pqp - qp[i]) / q[i * n + i];
      p[i] += step;
      pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / (1 + step) / (1 + step);
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + step * q[i * n + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
}

void eval_svm_probabilities(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), ElementType::f32);
  const auto n = static_cast<size_t>(c.integer("classes"));
  const Tensor y(ElementType::f32, {x.dims()[0], static_cast<int64_t>(n)});
  std::vector<float> r(n * n);
  const float* pair = x.as<float>();
  for (int64_t row = 0; row < x.dims()[0]; ++row) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        r[i * n + j] = std::clamp(*pair++, 1e-7F, 1 - 1e-7F);
        r[j * n + i] = 1 - r[i * n + j];
      }
    }
    couple(r, n, y.as<float>() + row * static_cast<int64_t>(n));
  }
  store_tensor(y, c.out(0, y.dims()));
}

}  // namespace

static const Register svm_probabilities{{
    .name = "svm_probabilities",
    .doc = "Class probabilities from those of each pair's first class, by pairwise coupling.",
    .operands = {{"x", kFloats}},
    .attributes = {{"classes", AttributeKind::integer}},
    .infer = infer_svm_probabilities,
    .eval = eval_svm_probabilities,
}};

}  // namespace lathe
