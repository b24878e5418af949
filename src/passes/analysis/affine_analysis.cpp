// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_analysis.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "ir/ops.h"
#include "passes/analysis/affine_bounds.h"
#include "passes/analysis/affine_literal.h"

namespace lathe {
namespace {

using Found = std::optional<AffineValue>;

// A number that no choice has.
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Derives the affine value of one instruction's result from those of its operands.
class AffineRule {
 public:
  AffineRule(const Instruction& instruction, const std::map<const Value*, AffineValue>& known)
      : instruction_(instruction), known_(known) {
    const Type& type = instruction.result()->type();
    rank_ = type.is_ranked() ? type.rank() : -1;
  }

  Found run() const {
    if (rank_ < 0) return std::nullopt;
    if (const auto& elements = instruction_.result()->elements();
        elements && elements->size() == 1) {
      const Dim& only = elements->front();
      if (only.is_constant()) return AffineValue::constant(static_cast<double>(*only.constant()));
      return AffineValue::index({std::vector<int64_t>(static_cast<size_t>(rank_), 0), only});
    }
    const Op& op = instruction_.op();
    if (instruction_.literal()) return affine_literal(instruction_.literal()->tensor);
    if (op == ops::range) return range();
    if (op == ops::constant_of_shape) return filled();
    if (op == ops::transpose) return transposed();
    if (op == ops::reshape || op == ops::squeeze || op == ops::unsqueeze) return reshaped();
    if (op == ops::expand || op == ops::identity)
      return moved(0, [&](const Linear& l) { return aligned(l, rank_); });
    if (op == ops::slice) return sliced();
    if (op == ops::cumsum) return cumulative_sum();
    if (op == ops::trilu) return triangle();
    if (op == ops::concat) return joined();
    if (op == ops::scatter_nd) return rewritten();
    const bool gathers = op == ops::gather || op == ops::gather_elements || op == ops::gather_nd;
    if (gathers) return gathered();
    return elementwise();
  }

 private:
  const Value* operand(size_t i) const {
    return i < instruction_.operands().size() ? instruction_.operands()[i] : nullptr;
  }
  const AffineValue* known(size_t i) const {
    const auto at = known_.find(operand(i));
    return operand(i) == nullptr || at == known_.end() ? nullptr : &at->second;
  }
  // Elements of operand i, if all are dims.
  std::optional<std::vector<Dim>> elements(size_t i) const {
    return operand(i) == nullptr ? std::nullopt : operand(i)->elements();
  }
  std::optional<int64_t> integer(size_t i) const {
    const auto list = elements(i);
    if (!list || list->size() != 1) return std::nullopt;
    return list->front().constant();
  }
  const std::vector<Dim>& dims(size_t i) const { return *operand(i)->type().dims; }

  // Elements of a constant, if no index is outside it: a gather refuses those when it runs.
  Found gathered() const {
    if (known(0) == nullptr || !known(0)->is_constant() || !operand(0)->type().is_ranked() ||
        !operand(1)->type().is_ranked()) {
      return std::nullopt;
    }
    const auto attribute = [&](std::string_view which) {
      return std::get<int64_t>(*find_attribute(instruction_.attributes(), which));
    };
    const auto within = [&](const Value* indices, int64_t axis) {
      const auto at = known_.find(indices);
      return at != known_.end() && indices->type().is_ranked() && axis < std::ssize(dims(0)) &&
             indices_within(at->second, *indices->type().dims, dims(0)[static_cast<size_t>(axis)]);
    };
    bool inside = true;
    if (instruction_.op() != ops::gather_nd) {
      const int64_t axis = attribute("axis");
      inside = within(operand(1), axis < 0 ? axis + std::ssize(dims(0)) : axis);
    } else {
      const std::vector<const Value*> coordinates = coordinates_of(operand(1));
      for (size_t i = 0; i < coordinates.size() && inside; ++i) {
        inside = within(coordinates[i], attribute("batch_dims") + static_cast<int64_t>(i));
      }
      inside = inside && !coordinates.empty();
    }
    return inside ? Found(*known(0)) : std::nullopt;
  }

  // The indices along each axis, of places in a tensor: what was joined, one for each axis, or the
  // places themselves. Empty if unknown.
  std::vector<const Value*> coordinates_of(const Value* places) const {
    const std::vector<Dim>& extents = *places->type().dims;
    const int64_t depth = extents.empty() ? 0 : extents.back().constant().value_or(0);
    const Instruction* joint = places->definition();
    if (depth > 1 && joint != nullptr && joint->op() == ops::concat) {
      const auto along = std::get<int64_t>(*find_attribute(joint->attributes(), "axis"));
      std::vector<const Value*> parts(joint->operands().begin(), joint->operands().end());
      if ((along == -1 || along + 1 == std::ssize(extents)) && std::ssize(parts) == depth) {
        const bool one_each = std::ranges::all_of(parts, [](const Value* part) {
          return part->type().is_ranked() && part->type().dims->back() == Dim(1);
        });
        if (one_each) return parts;
      }
    }
    return std::vector<const Value*>(static_cast<size_t>(std::min<int64_t>(depth, 64)), places);
  }

  // concat of a constant and a choice whose first branch is that constant: the choice, extended.
  Found joined() const {
    if (instruction_.operands().size() != 2 || known(0) == nullptr || known(1) == nullptr ||
        !known(0)->is_constant() || known(1)->linear || known(1)->yes != known(0)->yes) {
      return std::nullopt;
    }
    const auto axis_value = std::get<int64_t>(*find_attribute(instruction_.attributes(), "axis"));
    const auto axis = static_cast<size_t>(axis_value < 0 ? axis_value + rank_ : axis_value);
    const Dim extent = dims(0)[axis];
    return moved(1, [&](const Linear& linear) -> std::optional<Linear> {
      Linear result = linear;
      for (size_t other = 0; other < linear.steps.size(); ++other) {
        if (other != axis && linear.steps[other] < 0) return std::nullopt;
      }
      if (linear.steps[axis] > 0 || less_equal(0, linear.offset) != Ternary::yes) {
        return std::nullopt;
      }
      result.offset = linear.offset - extent * Dim(linear.steps[axis]);
      return result;
    });
  }

  // scatter_nd that writes every element to its own index: the updates.
  Found rewritten() const {
    if (known(2) == nullptr || !operand(1)->type().is_ranked() || operand(1)->type().rank() < 2 ||
        std::get<std::string>(*find_attribute(instruction_.attributes(), "reduction")) != "none") {
      return std::nullopt;
    }
    const std::vector<Dim>& to = *instruction_.result()->type().dims;
    const std::vector<Dim>& places = dims(1);
    const auto depth = places.back().constant().value_or(0);
    std::vector<const Value*> coordinates = {operand(1)};
    if (depth > 1 && operand(1)->definition() != nullptr) {
      const Instruction& joint = *operand(1)->definition();
      const auto along = joint.op() == ops::concat
                             ? std::get<int64_t>(*find_attribute(joint.attributes(), "axis"))
                             : 0;
      if (along != -1 && along + 1 != std::ssize(places)) return std::nullopt;
      coordinates.assign(joint.operands().begin(), joint.operands().end());
    }
    if (dims(2) != to || std::ssize(coordinates) != depth || depth + 1 != std::ssize(places)) {
      return std::nullopt;
    }
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      if (!(places[axis] == to[axis]) || !is_index(coordinates[axis], axis, to[axis])) return {};
    }
    return *known(2);
  }

  // True if every element is its own index along `axis`.
  bool is_index(const Value* value, size_t axis, const Dim& extent) const {
    const auto at = known_.find(value);
    if (at == known_.end()) return false;
    const AffineValue& k = at->second;
    if (k.is_constant()) return k.yes == 0 && extent == Dim(1);
    if (!k.linear || !(k.linear->offset == Dim(0)) || k.linear->steps.size() <= axis) return false;
    for (size_t other = 0; other < k.linear->steps.size(); ++other) {
      if (other == axis && extent == Dim(1)) continue;
      if (k.linear->steps[other] != (other == axis ? 1 : 0)) return false;
    }
    return true;
  }

  Found range() const {
    if (integer(2) != 1) return std::nullopt;
    if (const auto start = elements(0); start && start->size() == 1) {
      return AffineValue::index({{1}, start->front()});
    }
    const bool is_linear = known(0) != nullptr && known(0)->linear;
    return is_linear ? Found(AffineValue::index({{1}, known(0)->linear->offset})) : std::nullopt;
  }

  Found filled() const {
    if (operand(1) == nullptr) return AffineValue::constant(0);
    return known(1) == nullptr ? std::nullopt : Found(*known(1));
  }

  // Applies `move` to every linear form of operand i.
  Found moved(size_t i, const std::function<std::optional<Linear>(const Linear&)>& move) const {
    if (known(i) == nullptr) return std::nullopt;
    AffineValue result = *known(i);
    const auto change = [&](Linear& linear) {
      std::optional<Linear> other = move(linear);
      if (other) linear = std::move(*other);
      return other.has_value();
    };
    if (result.linear && !change(*result.linear)) return std::nullopt;
    for (Linear& condition : result.conditions) {
      if (!change(condition)) return std::nullopt;
    }
    return result;
  }

  Found transposed() const {
    const auto& order =
        std::get<Integers>(*find_attribute(instruction_.attributes(), "permutation"));
    return moved(0, [&](const Linear& linear) {
      Linear result = linear;
      for (size_t axis = 0; axis < linear.steps.size(); ++axis) {
        const size_t from =
            order.empty() ? linear.steps.size() - 1 - axis : static_cast<size_t>(order[axis]);
        result.steps[axis] = linear.steps[from];
      }
      return result;
    });
  }

  // Adds and removes axes of size 1; the other axes keep their order.
  Found reshaped() const {
    if (known(0) != nullptr && known(0)->is_constant()) return *known(0);
    if (operand(0) == nullptr || !operand(0)->type().is_ranked()) return std::nullopt;
    const auto& from = dims(0);
    const auto& to = *instruction_.result()->type().dims;
    std::vector<size_t> target(from.size(), to.size());
    size_t at = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == Dim(1)) continue;
      while (at < to.size() && to[at] == Dim(1)) ++at;
      if (at == to.size() || !(to[at] == from[axis])) return std::nullopt;
      target[axis] = at++;
    }
    return moved(0, [&](const Linear& linear) {
      Linear result{std::vector<int64_t>(to.size(), 0), linear.offset};
      for (size_t axis = 0; axis < from.size(); ++axis) {
        if (target[axis] < to.size()) result.steps[target[axis]] = linear.steps[axis];
      }
      return result;
    });
  }

  // Index 0 of the result is `starts` of the operand.
  Found sliced() const {
    const auto starts = elements(1);
    const auto steps = elements(4);
    if (!starts || (operand(4) != nullptr && !steps)) return std::nullopt;
    const auto axes = elements(3);
    if (operand(3) != nullptr && !axes) return std::nullopt;
    if ((axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) {
      return std::nullopt;
    }
    const int rank = operand(0)->type().rank();
    return moved(0, [&](const Linear& linear) -> std::optional<Linear> {
      Linear result = linear;
      for (size_t i = 0; i < starts->size(); ++i) {
        int64_t axis = static_cast<int64_t>(i);
        if (axes) axis = (*axes)[i].constant().value_or(rank);
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || (steps && !((*steps)[i] == Dim(1)))) return std::nullopt;
        Dim start = (*starts)[i];
        if (less_equal(0, start) != Ternary::yes) {
          if (!(less_equal(start, 0) == Ternary::yes)) return std::nullopt;
          start = dims(0)[static_cast<size_t>(axis)] + start;
          if (less_equal(0, start) != Ternary::yes) return std::nullopt;  // may be clamped
        }
        result.offset = result.offset + start * Dim(linear.steps[static_cast<size_t>(axis)]);
      }
      return result;
    });
  }

  // The cumulative sum of ones is an index.
  Found cumulative_sum() const {
    const std::optional<int64_t> axis = integer(1);
    const auto flag = [&](std::string_view which) {
      return std::get<bool>(*find_attribute(instruction_.attributes(), which));
    };
    if (!axis || known(0) == nullptr || !known(0)->is_constant() || known(0)->yes != 1 ||
        flag("reverse")) {
      return std::nullopt;
    }
    const int64_t along = *axis < 0 ? *axis + rank_ : *axis;
    if (along < 0 || along >= rank_) return std::nullopt;
    Linear linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), flag("exclusive") ? 0 : 1};
    linear.steps[static_cast<size_t>(along)] = 1;
    return AffineValue::index(std::move(linear));
  }

  // trilu of a constant: a choice on one side of the diagonal.
  Found triangle() const {
    const std::optional<int64_t> k = operand(1) == nullptr ? 0 : integer(1);
    if (!k || known(0) == nullptr || !known(0)->is_constant() || rank_ < 2) return std::nullopt;
    const bool upper = std::get<bool>(*find_attribute(instruction_.attributes(), "upper"));
    // Index (i, j), upper: j - i - k >= 0; lower: i - j + k >= 0.
    Linear linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), upper ? -*k : *k};
    linear.steps[static_cast<size_t>(rank_) - 1] = upper ? 1 : -1;
    linear.steps[static_cast<size_t>(rank_) - 2] = upper ? -1 : 1;
    return AffineValue{std::nullopt, {std::move(linear)}, known(0)->yes, 0};
  }

  using Function = double (*)(double a, double b, double c);
  static Function function_of(const Op& op) {
    static const std::map<const Op*, Function> list = {
        {&ops::add, [](double a, double b, double) { return a + b; }},
        {&ops::sub, [](double a, double b, double) { return a - b; }},
        {&ops::mul, [](double a, double b, double) { return a * b; }},
        {&ops::div, [](double a, double b, double) { return b == 0 ? kUnknown : a / b; }},
        {&ops::min, [](double a, double b, double) { return std::min(a, b); }},
        {&ops::max, [](double a, double b, double) { return std::max(a, b); }},
        {&ops::sqrt, [](double a, double, double) { return std::sqrt(a); }},
        {&ops::reciprocal, [](double a, double, double) { return a == 0 ? kUnknown : 1 / a; }},
        {&ops::neg, [](double a, double, double) { return -a; }},
        {&ops::not_, [](double a, double, double) { return a == 0 ? 1.0 : 0.0; }},
        {&ops::and_, [](double a, double b, double) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
        {&ops::or_, [](double a, double b, double) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
        {&ops::xor_, [](double a, double b, double) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
        {&ops::equal, [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
        {&ops::less, [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
        {&ops::less_or_equal, [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
        {&ops::greater, [](double a, double b, double) { return a > b ? 1.0 : 0.0; }},
        {&ops::greater_or_equal, [](double a, double b, double) { return a >= b ? 1.0 : 0.0; }},
        {&ops::where, [](double a, double b, double c) { return a != 0 ? b : c; }},
    };
    const auto at = list.find(&op);
    return at == list.end() ? nullptr : at->second;
  }

  // Whether the result is larger if element i is.
  bool grows_with(size_t i) const {
    const Op& op = instruction_.op();
    return is_any_of(op, {&ops::add, &ops::min, &ops::max}) || (op == ops::where && i > 0) ||
           (op == ops::cast && is_floating(instruction_.result()->type().element));
  }

  Found elementwise() const {
    const Op& op = instruction_.op();
    const size_t count = instruction_.operands().size();
    const ElementType element = instruction_.result()->type().element;
    Function function = function_of(op);
    if (op == ops::div && is_integer(element)) {
      function = [](double a, double b, double) {
        if (b == 0) return kUnknown;
        return static_cast<double>(static_cast<int64_t>(a) / static_cast<int64_t>(b));
      };
    }
    if (op == ops::cast) {
      const bool boolean = element == ElementType::boolean;
      function = [](double a, double, double) { return a; };
      if (boolean) function = [](double a, double, double) { return a != 0 ? 1.0 : 0.0; };
      if (is_integer(element)) function = [](double a, double, double) { return std::trunc(a); };
      if (known(0) != nullptr && known(0)->linear && !boolean) return *known(0);
    }
    if ((op == ops::min || op == ops::max) && count != 2) return std::nullopt;
    if (function == nullptr || count > 3) return std::nullopt;
    bool linear = false;
    for (size_t i = 0; i < count; ++i) {
      if (known(i) == nullptr || (known(i)->joins_masks && !grows_with(i))) return std::nullopt;
      linear = linear || known(i)->linear.has_value();
    }
    if (linear) return arithmetic();
    std::vector<const AffineValue*> choices;
    for (size_t i = 0; i < count; ++i) choices.push_back(known(i));
    return join_choices(choices, rank_, [&](double a, double b, double c) {
      return element_number(element, function(a, b, c));
    });
  }

  // Operand i as a linear form in the result's indices; nullopt if a step could overflow.
  std::optional<Linear> linear_of(size_t i) const {
    constexpr int64_t kMostStep = int64_t{1} << 52;
    const AffineValue& k = *known(i);
    if (k.linear) {
      const bool small = std::ranges::all_of(
          k.linear->steps, [](int64_t step) { return step > -kMostStep && step < kMostStep; });
      if (!small) return std::nullopt;
      return aligned(*k.linear, rank_);
    }
    if (!k.is_constant() || std::trunc(k.yes) != k.yes || std::abs(k.yes) > 1e15)
      return std::nullopt;
    return Linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), static_cast<int64_t>(k.yes)};
  }

  // The value of a form that is constant in all indices.
  static std::optional<int64_t> constant_of_form(const Linear& linear) {
    const bool same = std::ranges::all_of(linear.steps, [](int64_t step) { return step == 0; });
    return same ? linear.offset.constant() : std::nullopt;
  }
  static Found times(Linear linear, int64_t by) {
    for (int64_t& step : linear.steps) {
      if (__builtin_mul_overflow(step, by, &step)) return std::nullopt;
    }
    linear.offset = linear.offset * Dim(by);
    return AffineValue::index(std::move(linear));
  }

  Found arithmetic() const {
    const Op& op = instruction_.op();
    if (instruction_.operands().size() != 2) return std::nullopt;
    const std::optional<Linear> a = linear_of(0);
    const std::optional<Linear> b = linear_of(1);
    if (!a || !b) return std::nullopt;
    if (op == ops::add) return AffineValue::index(sum(*a, *b, 1));
    if (op == ops::sub) return AffineValue::index(sum(*a, *b, -1));
    if (op == ops::mul) {
      if (const auto by = constant_of_form(*b)) return times(*a, *by);
      if (const auto by = constant_of_form(*a)) return times(*b, *by);
      return std::nullopt;
    }
    const auto test = [](std::vector<Linear> conditions) {
      return AffineValue{std::nullopt, std::move(conditions), 1, 0};
    };
    const auto above = [](const Linear& x, const Linear& y, int64_t by) {
      Linear difference = sum(x, y, -1);
      difference.offset = difference.offset - Dim(by);
      return difference;
    };
    if (op == ops::less_or_equal) return test({above(*b, *a, 0)});
    if (op == ops::less) return test({above(*b, *a, 1)});
    if (op == ops::greater_or_equal) return test({above(*a, *b, 0)});
    if (op == ops::greater) return test({above(*a, *b, 1)});
    if (op == ops::equal) return test({above(*a, *b, 0), above(*b, *a, 0)});
    return std::nullopt;
  }

  const Instruction& instruction_;
  const std::map<const Value*, AffineValue>& known_;
  int rank_;
};

// Clears steps along axes of size 1: a later broadcast repeats their one element.
void clear_unit_axes(const Type& type, AffineValue& known) {
  if (!type.is_ranked()) return;
  const auto clear = [&](Linear& linear) {
    const size_t count = std::min(linear.steps.size(), type.dims->size());
    for (size_t i = 1; i <= count; ++i) {
      if (type.dims->end()[-static_cast<int64_t>(i)] == Dim(1))
        linear.steps.end()[-static_cast<int64_t>(i)] = 0;
    }
  };
  if (known.linear) clear(*known.linear);
  for (Linear& condition : known.conditions) clear(condition);
}

// What the rule finds, unless its type would round or wrap it.
Found held_by_type(const Instruction& instruction, const std::map<const Value*, AffineValue>& known,
                   int64_t longest) {
  try {
    Found found = AffineRule(instruction, known).run();
    return found && type_holds(instruction.result()->type(), *found, longest) ? found
                                                                              : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // a coefficient does not fit in 64 bits
  }
}

}  // namespace

AffineAnalysis::AffineAnalysis(const Module& main, std::map<const Value*, AffineValue> given,
                               int64_t longest)
    : known_(std::move(given)) {
  for (const auto& instruction : main.instructions()) {
    if (instruction->results().size() != 1) continue;
    if (Found found = held_by_type(*instruction, known_, longest)) {
      prefer_yes(*found);
      clear_unit_axes(instruction->result()->type(), *found);
      known_[instruction->result()] = std::move(*found);
    }
  }
}

const AffineValue* AffineAnalysis::find(const Value* value) const {
  const auto at = known_.find(value);
  return at == known_.end() ? nullptr : &at->second;
}

}  // namespace lathe
