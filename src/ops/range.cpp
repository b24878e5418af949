// SPDX-License-Identifier: MIT
#include <cmath>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"

namespace lathe {
namespace {

// Number of values from start by delta before limit. Integers differ by less than 2^64.
template <class T>
int64_t value_count(const Evaluation& c, T start, T limit, T delta) {
  c.check(delta != 0, "delta is {}, expected a non-zero value", delta);
  if constexpr (std::is_integral_v<T>) {
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    const auto low = static_cast<uint64_t>(delta > 0 ? start : limit);
    const auto high = static_cast<uint64_t>(delta > 0 ? limit : start);
    const auto size = static_cast<uint64_t>(delta);
    const uint64_t step = delta > 0 ? size : 0 - size;
    const uint64_t count = (high - low - 1) / step + 1;
    c.check(count <= static_cast<uint64_t>(kUnbounded), "got {} values, which is too many", count);
    return static_cast<int64_t>(count);
  } else {
    const double count = std::ceil(static_cast<double>(limit - start) / static_cast<double>(delta));
    c.check(count < 0x1p62 && !std::isnan(count), "range has {} values, which is too many", count);
    return count > 0 ? static_cast<int64_t>(count) : 0;
  }
}

void infer_range(Infer& c) {
  for (int i = 0; i < 3; ++i) {
    c.require_equal(element_count(c.dims(i)), 1, "number of values of an operand");
  }
  const ElementType element = c.element(0);
  const std::vector<Dim>* start = c.elements(0);
  const std::vector<Dim>* limit = c.elements(1);
  const auto delta = c.constants(2);
  if (start == nullptr || limit == nullptr || !delta) {
    return c.result(element, {c.found("range")});
  }
  const int64_t step = delta->front();
  c.check(step != 0, "delta is {}, expected a non-zero value", step);
  const Dim span = step > 0 ? limit->front() - start->front() : start->front() - limit->front();
  const Dim count = Dim::max(Dim::ceil_div(span, step > 0 ? step : -step), 0);
  c.result(element, {count});
  if (!count.is_constant() || *count.constant() > kMaxSymbolicElements) return;
  std::vector<Dim> values;
  for (int64_t i = 0; i < *count.constant(); ++i) values.push_back(start->front() + i * step);
  c.result_elements(std::move(values));
}

void eval_range(Evaluation& c) {
  for (int i = 0; i < 3; ++i) {
    c.check(c.in(i).count() == 1, "operand {} has {} values, expected one", i, c.in(i).count());
  }
  const ElementType type = arithmetic_type(c.in(0).type);
  const ConvertedOperand start(c.in(0), type);
  const ConvertedOperand limit(c.in(1), type);
  const ConvertedOperand delta(c.in(2), type);
  with_number_type(type, [&]<class T>(T*) {
    const T first = *start.view().as<T>();
    const T step = *delta.view().as<T>();
    const int64_t count = value_count(c, first, *limit.view().as<T>(), step);
    const ConvertedResult out(c.out(0, std::array{count}), type);
    const int64_t stride = out.view().strides[0];
    for (int64_t i = 0; i < count; ++i) {
      T& value = out.view().as<T>()[i * stride];
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(static_cast<uint64_t>(first) +
                               static_cast<uint64_t>(i) * static_cast<uint64_t>(step));
      } else {
        value = static_cast<T>(static_cast<double>(first) +
                               static_cast<double>(i) * static_cast<double>(step));
      }
    }
    out.store();
  });
}

}  // namespace

static const Register range{{
    .name = "range",
    .doc = "start, start + delta, … before limit, as a vector.",
    .operands = {{"start", kNumeric, Arity::one, 'T'},
                 {"limit", kNumeric, Arity::one, 'T'},
                 {"delta", kNumeric, Arity::one, 'T'}},
    .on_host = {0, 1, 2},
    .infer = infer_range,
    .eval = eval_range,
}};

}  // namespace lathe
