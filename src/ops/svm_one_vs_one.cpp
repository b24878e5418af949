// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

// Checks the numbers of vectors and returns their sum.
template <class Context>
int64_t vector_count(const Context& c) {
  const Integers& counts = c.integers("vectors_per_class");
  const auto classes = static_cast<int64_t>(counts.size());
  c.check(classes >= 2 && classes < 65536, "vectors_per_class has {} entries, expected 2 to 65535",
          classes);
  int64_t total = 0;
  for (const int64_t count : counts) {
    c.check(count >= 0 && count < (int64_t{1} << 31), "vectors_per_class has {}", count);
    total += count;
  }
  return total;
}

void infer_svm_one_vs_one(Infer& c) {
  const int64_t vectors = vector_count(c);
  const auto classes = static_cast<int64_t>(c.integers("vectors_per_class").size());
  require_ranks(c, {2, 2, 1});
  c.require_equal(c.dim(0, 1), vectors, "support vectors of x");
  c.require_equal(c.dim(1, 0), classes - 1, "rows of coefficients");
  c.require_equal(c.dim(1, 1), vectors, "support vectors of coefficients");
  c.require_equal(c.dim(2, 0), classes * (classes - 1) / 2, "number of intercepts");
  c.result(c.element(0), {c.dim(0, 0), c.dim(2, 0)});
  c.result(ElementType::i64, {c.dim(0, 0), classes});
}

void eval_svm_one_vs_one(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), ElementType::f32);
  const Tensor coefficients = dense_tensor(c.in(1), ElementType::f32);
  const Tensor intercepts = dense_tensor(c.in(2), ElementType::f32);
  const Integers& counts = c.integers("vectors_per_class");
  const auto classes = static_cast<int64_t>(counts.size());
  const int64_t vectors = vector_count(c);
  const int64_t pairs = classes * (classes - 1) / 2;
  c.check(x.dims()[1] == vectors && coefficients.count() == (classes - 1) * vectors &&
              intercepts.count() == pairs,
          "x has {} columns, coefficients has {} elements and intercepts has {}", x.dims()[1],
          coefficients.count(), intercepts.count());
  const int64_t rows = x.dims()[0];
  const Tensor scores(ElementType::f32, {rows, pairs});
  const Tensor votes(ElementType::i64, {rows, classes});
  parallel_for(c.pool, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* kernel = x.as<float>() + row * vectors;
      // The part of a decision that comes from one class's vectors.
      const auto part = [&](int64_t from, int64_t count, int64_t line) {
        const float* weight = coefficients.as<float>() + line * vectors;
        double sum = 0;
        for (int64_t v = from; v < from + count; ++v) {
          sum += static_cast<double>(weight[v] * kernel[v]);
        }
        return sum;
      };
      int64_t pair = 0;
      int64_t first_i = 0;
      for (int64_t i = 0; i < classes; first_i += counts[static_cast<size_t>(i++)]) {
        int64_t first_j = first_i + counts[static_cast<size_t>(i)];
        for (int64_t j = i + 1; j < classes; first_j += counts[static_cast<size_t>(j++)]) {
          const double sum = part(first_i, counts[static_cast<size_t>(i)], j - 1) +
                             part(first_j, counts[static_cast<size_t>(j)], i) +
                             static_cast<double>(intercepts.as<float>()[pair]);
          scores.as<float>()[row * pairs + pair++] = static_cast<float>(sum);
          ++votes.as<int64_t>()[row * classes + (sum > 0 ? i : j)];
        }
      }
    }
  });
  store_tensor(scores, c.out(0, scores.dims()));
  store_tensor(votes, c.out(1, votes.dims()));
}

}  // namespace

static const Register svm_one_vs_one{{
    .name = "svm_one_vs_one",
    .doc =
        "Decision values of all pairs of classes from kernel values (LIBSVM's coefficients), and "
        "how many pairs each class wins.",
    .operands = {{"x", kFloats}, {"coefficients", kFloats}, {"intercepts", kFloats}},
    .attributes = {{"vectors_per_class", AttributeKind::integers}},
    .results = 2,
    .infer = infer_svm_one_vs_one,
    .eval = eval_svm_one_vs_one,
}};

}  // namespace lathe
