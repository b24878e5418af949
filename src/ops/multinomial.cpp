// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/dense_operand.h"
#include "ops/support/random.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

// The first class whose cumulative weight exceeds the number; classes of weight 0 are never drawn.
int64_t draw_class(std::span<const double> cumulative, double number) {
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), number);
  const auto last = std::lower_bound(cumulative.begin(), cumulative.end(), cumulative.back());
  return std::min(at, last) - cumulative.begin();
}

void eval_multinomial(Evaluation& c) {
  const DenseOperand x(c.in(0), ElementType::f64);
  const int64_t samples = c.integer("sample_size");
  const int64_t rows = x.extent(0);
  const DenseResult out(c.out(0, Dims{rows, samples}), ElementType::i64);
  std::vector<double> cumulative(static_cast<size_t>(x.extent(1)));
  for (int64_t row = 0; samples > 0 && row < rows; ++row) {
    const std::span log_weights(x.as<double>() + row * x.extent(1), cumulative.size());
    double largest = -std::numeric_limits<double>::infinity();
    for (const double log_weight : log_weights) largest = std::max(largest, log_weight);
    double sum = 0;
    std::ranges::transform(log_weights, cumulative.begin(),
                           [&](double x) { return sum += std::exp(x - largest); });
    c.check(sum > 0, "row {} of x has no class of positive probability", row);
    for (int64_t i = row * samples; i < (row + 1) * samples; ++i) {
      out.as<int64_t>()[i] = draw_class(cumulative, uniform_53(random_bits(c, i)) * sum);
    }
  }
  out.store();
}

}  // namespace

static const Register multinomial{{
    .name = "multinomial",
    .doc = "Classes drawn from rows of log probabilities, which need not be normalised.",
    .operands = {{"x", kFloats}, {"counter", types(ElementType::i64)}},
    .attributes = {{"sample_size", 1}, {"seed", 0}, {"dtype", Attribute(ElementType::i32)}},
    .infer =
        [](Infer& c) {
          require_ranks(c, {2, 0});
          c.result(require_element_type(c, "dtype", kIndices, "i32 or i64"),
                   {c.dim(0, 0), require_integer(c, "sample_size", 0)});
        },
    .eval = eval_multinomial,
}};

}  // namespace lathe
