// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/convert_operands.h"
#include "ops/support/random.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_multinomial(Infer& c) {
  const ElementType element = c.element_type("dtype");
  c.check((kIndices & type_bit(element)) != 0, "dtype is {}, expected i32 or i64",
          to_string(element));
  require_ranks(c, {2, 0});
  c.result(element, {c.dim(0, 0), require_integer(c, "sample_size", 0)});
}

// The first class whose cumulative weight exceeds the number; classes of weight 0 are never drawn.
int64_t draw_class(std::span<const double> cumulative, double number) {
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), number);
  const auto last = std::lower_bound(cumulative.begin(), cumulative.end(), cumulative.back());
  return std::min(at, last) - cumulative.begin();
}

void eval_multinomial(Evaluation& c) {
  const ConvertedOperand x(c.in(0), ElementType::f64);
  const int64_t samples = c.integer("sample_size");
  const int64_t classes = x.view().dims[1];
  const ConvertedResult out(c.out(0, Dims{x.view().dims[0], samples}), ElementType::i64);
  std::vector<double> cumulative(static_cast<size_t>(classes));
  for (int64_t row = 0; samples > 0 && row < x.view().dims[0]; ++row) {
    const auto log_weight = [&](int64_t i) {
      return x.view().as<double>()[row * x.view().strides[0] + i * x.view().strides[1]];
    };
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < classes; ++i) largest = std::max(largest, log_weight(i));
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
      cumulative[static_cast<size_t>(i)] = sum += std::exp(log_weight(i) - largest);
    }
    c.check(sum > 0, "row {} of x has no class of positive probability", row);
    for (int64_t i = 0; i < samples; ++i) {
      const double number = uniform_53(random_bits(c, row * samples + i)) * sum;
      out.view().as<int64_t>()[row * out.view().strides[0] + i * out.view().strides[1]] =
          draw_class(cumulative, number);
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
    .infer = infer_multinomial,
    .eval = eval_multinomial,
}};

}  // namespace lathe
