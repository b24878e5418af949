// SPDX-License-Identifier: MIT
#include "passes/analysis/alibi_slopes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/op_origin.h"
#include "ops/support/symbolic.h"
#include "passes/analysis/kv_cache_uses.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

using FoundSlopes = std::optional<AlibiSlopes>;

constexpr int kMaxSlopeSteps = 24;           // def-use distance to positions and slopes
constexpr int64_t kMostConstants = 1 << 16;  // elements that are evaluated at most

// Evaluates values that depend on literals alone, each once.
class Constants {
 public:
  std::optional<Tensor> find(const Value* value, int steps) {
    if (const auto at = memo_.find(value); at != memo_.end()) return at->second;
    return memo_[value] = compute(value, steps);
  }

 private:
  std::optional<Tensor> compute(const Value* value, int steps) {
    const Instruction* definition = value == nullptr ? nullptr : value->definition();
    if (definition == nullptr || steps == 0 || !value->type().is_tensor()) return std::nullopt;
    const auto dims =
        value->type().is_ranked() ? constant_values(*value->type().dims) : std::nullopt;
    if (!dims || element_count(*dims) > kMostConstants) return std::nullopt;
    if (definition->literal() != nullptr) return definition->literal()->tensor;
    const Op& op = definition->op();
    if (op.structural != Structural::none || (op.traits & kImpure) != 0 || !op.bodies.empty() ||
        definition->operands().empty() || definition->results().size() != 1) {
      return std::nullopt;
    }
    std::vector<Box> operands;
    for (const Value* operand : definition->operands()) {
      if (operand == nullptr) {
        operands.emplace_back();
        continue;
      }
      const std::optional<Tensor> tensor = find(operand, steps - 1);
      if (!tensor) return std::nullopt;
      operands.emplace_back(*tensor);
    }
    return evaluate_instruction(*definition, operands).front().tensor();
  }

  std::map<const Value*, std::optional<Tensor>> memo_;
};

std::vector<double> doubles_of(const Tensor& tensor) {
  const Tensor dense = tensor.dense();
  std::vector<double> values(static_cast<size_t>(dense.count()));
  convert(ElementType::f64, values.data(), dense.type(), dense.data(), dense.count());
  return values;
}

// A tensor that varies along at most one axis: one factor per head.
FoundSlopes factors_in(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  if (tensor.count() < 1 || !is_floating(tensor.type())) return std::nullopt;
  const auto along = std::ranges::find_if(dims, [](int64_t extent) { return extent > 1; });
  AlibiSlopes slopes{doubles_of(tensor), -1, std::vector<int64_t>(dims.size(), 0)};
  if (along == dims.end()) return slopes;
  if (*along != tensor.count()) return std::nullopt;
  slopes.axis = static_cast<int>(along - dims.begin());
  return slopes;
}

// Rounding error of table entries up to `largest`: half a unit in the last place.
double rounding(ElementType type, double largest) {
  const int digits = type == ElementType::f16    ? 11
                     : type == ElementType::bf16 ? 8
                                                 : std::numeric_limits<float>::digits;
  return std::ldexp(largest, -digits);
}

// Step of an arithmetic progression after rounding; nullopt for other sequences.
std::optional<double> step_of(std::span<const double> line, ElementType type) {
  const auto last = line.size() - 1;
  const double largest = std::max(std::abs(line[0]), std::abs(line[last]));
  double step = (line[last] - line[0]) / static_cast<double>(last);
  // Next to a zero, the first step is exact.
  if (line[0] == 0) step = line[1];
  if (line[last] == 0) step = -line[last - 1];
  for (size_t i = 0; i < line.size(); ++i) {
    const double expected = line[last] == 0 ? -step * static_cast<double>(last - i)
                                            : line[0] + step * static_cast<double>(i);
    if (!(std::abs(line[i] - expected) <= 2 * rounding(type, largest))) return std::nullopt;
  }
  return step;
}

// A bias table as long as the context: an arithmetic progression along the last axis per head.
FoundSlopes table_in(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  if (dims.empty() || dims.back() < 3 || !is_floating(tensor.type()) || !tensor.is_dense()) {
    return std::nullopt;
  }
  const int64_t length = dims.back();
  const auto lines = std::span(dims).first(dims.size() - 1);
  const auto along = std::ranges::find_if(lines, [](int64_t extent) { return extent > 1; });
  const int64_t count = tensor.count() / length;
  if (along != lines.end() && *along != count) return std::nullopt;
  AlibiSlopes slopes{{}, -1, std::vector<int64_t>(dims.size(), 0)};
  if (along != lines.end()) slopes.axis = static_cast<int>(along - lines.begin());
  slopes.steps.back() = 1;
  std::vector<double> line(static_cast<size_t>(length));
  for (int64_t head = 0; head < count; ++head) {
    const int64_t bytes = length * info(tensor.type()).bits / 8;
    convert(ElementType::f64, line.data(), tensor.type(), tensor.as<std::byte>() + head * bytes,
            length);
    const std::optional<double> step = step_of(line, tensor.type());
    if (!step) return std::nullopt;
    slopes.heads.push_back(*step);
  }
  return slopes;
}

class Trace {
 public:
  explicit Trace(const AffineAnalysis& flow) : flow_(flow) {}

  FoundSlopes run(const Value* value, int steps) {
    if (const auto at = memo_.find(value); at != memo_.end()) return at->second;
    return memo_[value] = trace(value, steps);
  }

 private:
  FoundSlopes trace(const Value* value, int steps) {
    const Instruction* definition = value->definition();
    if (definition == nullptr || steps == 0 || !value->type().is_ranked()) return std::nullopt;
    const AffineValue* known = flow_.find(value);
    if (known != nullptr && known->linear) return AlibiSlopes{{1}, -1, known->linear->steps};
    if (definition->literal() != nullptr) return table_in(definition->literal()->tensor);
    if (definition->results().size() != 1 || definition->operands().empty()) return std::nullopt;
    const Op& op = definition->op();
    const int rank = value->type().rank();
    if (op == ops::mul) {
      for (const size_t i : {0, 1}) {
        if (FoundSlopes found = scaled_position(*definition, i, steps)) return found;
      }
    }
    if (op == ops::add || op == ops::sub) return shifted(*definition, steps);
    const Value* first = operand(*definition, 0);
    if (const auto by = factor_of(*definition, flow_)) {
      return scaled(run(by->first, steps - 1), by->second, *by->first, rank);
    }
    if (op == ops::neg) return scaled(run(first, steps - 1), -1, *first, rank);
    if (first == nullptr || !first->type().is_ranked()) return std::nullopt;
    const bool to_float = op == ops::cast && is_floating(value->type().element);
    if (to_float || passes_on(op)) return run(first, steps - 1);
    if (op == ops::expand) return repeated(run(first, steps - 1), *first, rank);
    if (op == ops::slice) return sliced(*definition, run(first, steps - 1));
    if (op == ops::transpose) return transposed(*definition, run(first, steps - 1));
    if (op == ops::reshape || op == ops::squeeze || op == ops::unsqueeze) {
      return reshaped(*first, *value, run(first, steps - 1));
    }
    return std::nullopt;
  }

  // Adds leading axes up to `rank`.
  static FoundSlopes widened(FoundSlopes slopes, int rank) {
    if (!slopes) return slopes;
    const auto more = rank - std::ssize(slopes->steps);
    if (more < 0) return std::nullopt;
    slopes->steps.insert(slopes->steps.begin(), static_cast<size_t>(more), 0);
    if (slopes->axis >= 0) slopes->axis += static_cast<int>(more);
    return slopes;
  }

  // Clears steps along axes of size 1: their one element is broadcast.
  static FoundSlopes repeated(FoundSlopes slopes, const Value& before, int rank) {
    const std::vector<Dim>& dims = *before.type().dims;
    for (size_t axis = 0; slopes && axis < dims.size(); ++axis) {
      if (dims[axis] == Dim(1)) slopes->steps[axis] = 0;
    }
    return widened(std::move(slopes), rank);
  }

  static FoundSlopes scaled(FoundSlopes slopes, double by, const Value& before, int rank) {
    if (!slopes) return slopes;
    for (double& head : slopes->heads) head *= by;
    return repeated(std::move(slopes), before, rank);
  }

  // A position (operand i, equal for all heads) times constant slopes.
  FoundSlopes scaled_position(const Instruction& mul, size_t i, int steps) {
    const std::optional<Tensor> tensor = constants_.find(operand(mul, 1 - i), kMaxSlopeSteps);
    const int rank = mul.result()->type().rank();
    FoundSlopes slopes = widened(tensor ? factors_in(*tensor) : std::nullopt, rank);
    if (!slopes) return slopes;
    FoundSlopes grows = run(operand(mul, i), steps - 1);
    if (!grows || grows->axis >= 0) return std::nullopt;
    grows = repeated(std::move(grows), *operand(mul, i), rank);
    slopes->steps = grows->steps;
    for (double& head : slopes->heads) head *= grows->heads.front();
    // Positions must not vary along the axis of heads.
    const bool head_axis_is_constant =
        slopes->axis < 0 || slopes->steps[static_cast<size_t>(slopes->axis)] == 0;
    return head_axis_is_constant ? slopes : std::nullopt;
  }

  // Adds or subtracts a constant: the slopes stay, up to the sign.
  FoundSlopes shifted(const Instruction& sum, int steps) {
    for (const size_t i : {0, 1}) {
      if (!constant_of(operand(sum, 1 - i), flow_)) continue;
      const double sign = sum.op() == ops::sub && i == 1 ? -1 : 1;
      const Value& grows = *operand(sum, i);
      return scaled(run(&grows, steps - 1), sign, grows, sum.result()->type().rank());
    }
    return std::nullopt;
  }

  // A slice shifts positions, but must keep all heads.
  FoundSlopes sliced(const Instruction& slice, FoundSlopes slopes) const {
    const auto elements = [&](size_t i) {
      const Value* value = operand(slice, i);
      return value == nullptr ? std::nullopt : value->elements();
    };
    const auto axes = elements(3), by = elements(4);
    const bool one = operand(slice, 4) == nullptr ||
                     (by && std::ranges::all_of(*by, [](const Dim& d) { return d == Dim(1); }));
    if (!slopes || !one) return std::nullopt;
    if (slopes->axis < 0) return slopes;
    if (!axes) return std::nullopt;
    const int rank = slice.result()->type().rank();
    for (const Dim& element : *axes) {
      const int64_t given = element.constant().value_or(slopes->axis);
      if ((given < 0 ? given + rank : given) == slopes->axis) return std::nullopt;
    }
    return slopes;
  }

  static FoundSlopes transposed(const Instruction& transpose, FoundSlopes slopes) {
    if (!slopes) return slopes;
    const auto& order = std::get<Integers>(*find_attribute(transpose.attributes(), "permutation"));
    const size_t rank = slopes->steps.size();
    AlibiSlopes result = *slopes;
    for (size_t axis = 0; axis < rank; ++axis) {
      const size_t from = order.empty() ? rank - 1 - axis : static_cast<size_t>(order[axis]);
      result.steps[axis] = slopes->steps[from];
      if (static_cast<int>(from) == slopes->axis) result.axis = static_cast<int>(axis);
    }
    return result;
  }

  // Adds and removes axes of size 1; the other axes keep their order.
  static FoundSlopes reshaped(const Value& before, const Value& after, FoundSlopes slopes) {
    if (!slopes) return slopes;
    const std::vector<Dim>& from = *before.type().dims;
    const std::vector<Dim>& to = *after.type().dims;
    AlibiSlopes result{slopes->heads, -1, std::vector<int64_t>(to.size(), 0)};
    size_t at = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == Dim(1)) continue;
      while (at < to.size() && to[at] == Dim(1)) ++at;
      if (at == to.size() || !(to[at] == from[axis])) return std::nullopt;
      result.steps[at] = slopes->steps[axis];
      if (static_cast<int>(axis) == slopes->axis) result.axis = static_cast<int>(at);
      ++at;
    }
    return result;
  }

  const AffineAnalysis& flow_;
  Constants constants_;
  std::map<const Value*, FoundSlopes> memo_;  // each value is traced once
};

}  // namespace

std::optional<AlibiSlopes> alibi_slopes(const Value* value, const AffineAnalysis& flow) {
  return value == nullptr ? std::nullopt : Trace(flow).run(value, kMaxSlopeSteps);
}

std::optional<std::vector<double>> alibi_slopes_of_scores(const Value* value,
                                                          const AffineAnalysis& flow) {
  FoundSlopes slopes = alibi_slopes(value, flow);
  const auto rank = slopes ? std::ssize(slopes->steps) : 0;
  if (rank < 1 || slopes->steps.back() == 0 || value->type().dims->back() == Dim(1)) {
    return std::nullopt;
  }
  const bool by_head = slopes->axis < 0 || slopes->axis == rank - 3;
  for (int64_t axis = 0; axis + 2 < rank; ++axis) {
    if (slopes->steps[static_cast<size_t>(axis)] != 0) return std::nullopt;
  }
  if (!by_head) return std::nullopt;
  for (double& head : slopes->heads) head *= static_cast<double>(slopes->steps.back());
  return std::move(slopes->heads);
}

}  // namespace lathe
