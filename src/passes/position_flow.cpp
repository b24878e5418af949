// SPDX-License-Identifier: MIT
#include "passes/position_flow.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ir/op.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

using Found = std::optional<Known>;

// Seen with more axes before its own.
Linear aligned(Linear linear, int rank) {
  linear.steps.insert(linear.steps.begin(), static_cast<size_t>(rank) - linear.steps.size(), 0);
  return linear;
}

Linear sum(const Linear& a, const Linear& b, int64_t sign) {
  Linear all = a;
  for (size_t axis = 0; axis < all.steps.size(); ++axis) all.steps[axis] += sign * b.steps[axis];
  all.offset = a.offset + b.offset * Dim(sign);
  return all;
}

// Known of one instruction's result, from what is known of its operands.
class Rule {
 public:
  Rule(const Instruction& instruction, const std::map<const Value*, Known>& known)
      : instruction_(instruction), known_(known) {
    const Type& type = instruction.result()->type();
    rank_ = type.is_ranked() ? type.rank() : -1;
  }

  Found run() const {
    if (rank_ < 0) return std::nullopt;
    if (const auto& elements = instruction_.result()->elements();
        elements && elements->size() == 1) {
      const Dim& only = elements->front();
      if (only.is_constant()) return Known::constant(static_cast<double>(*only.constant()));
      return Known::index({std::vector<int64_t>(static_cast<size_t>(rank_), 0), only});
    }
    const std::string_view op = name();
    if (instruction_.literal()) return literal();
    if (op == "range") return range();
    if (op == "constant_of_shape") return filled();
    if (op == "transpose") return transposed();
    if (op == "reshape" || op == "squeeze" || op == "unsqueeze") return reshaped();
    if (op == "expand" || op == "identity")
      return moved(0, [&](const Linear& l) { return aligned(l, rank_); });
    if (op == "slice") return sliced();
    if (op == "cumsum") return counted();
    if (op == "trilu") return triangle();
    if (op.starts_with("gather") && known(0) != nullptr && known(0)->is_constant()) {
      return *known(0);  // all elements are alike
    }
    return elementwise();
  }

 private:
  std::string_view name() const { return instruction_.op().name; }
  const Value* operand(size_t i) const {
    return i < instruction_.operands().size() ? instruction_.operands()[i] : nullptr;
  }
  const Known* known(size_t i) const {
    const auto at = known_.find(operand(i));
    return operand(i) == nullptr || at == known_.end() ? nullptr : &at->second;
  }
  // The one element of an operand, or its elements.
  std::optional<std::vector<Dim>> elements(size_t i) const {
    return operand(i) == nullptr ? std::nullopt : operand(i)->elements();
  }
  std::optional<int64_t> integer(size_t i) const {
    const auto list = elements(i);
    if (!list || list->size() != 1) return std::nullopt;
    return list->front().constant();
  }
  const std::vector<Dim>& dims(size_t i) const { return *operand(i)->type().dims; }

  Found literal() const {
    const Tensor& tensor = instruction_.literal()->tensor;
    if (tensor.count() != 1 || tensor.type() == ElementType::string) return std::nullopt;
    double value = 0;
    convert(ElementType::f64, &value, tensor.type(), tensor.data(), 1);
    return Known::constant(value);
  }

  Found range() const {
    if (integer(2) != 1) return std::nullopt;
    if (const auto start = elements(0); start && start->size() == 1) {
      return Known::index({{1}, start->front()});
    }
    const bool counted = known(0) != nullptr && known(0)->linear;
    return counted ? Found(Known::index({{1}, known(0)->linear->offset})) : std::nullopt;
  }

  Found filled() const {
    if (operand(1) == nullptr) return Known::constant(0);
    return known(1) == nullptr ? std::nullopt : Found(*known(1));
  }

  // Every formula of operand i changed alike.
  Found moved(size_t i, const std::function<std::optional<Linear>(const Linear&)>& move) const {
    if (known(i) == nullptr) return std::nullopt;
    Known result = *known(i);
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

  // Axes of extent 1 come and go; others keep their order.
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

  // Indices of the result begin at `starts`.
  Found sliced() const {
    const auto starts = elements(1);
    const auto steps = elements(4);
    if (!starts || (operand(4) != nullptr && !steps)) return std::nullopt;
    const auto axes = elements(3);
    if (operand(3) != nullptr && !axes) return std::nullopt;
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
        }
        result.offset = result.offset + start * Dim(linear.steps[static_cast<size_t>(axis)]);
      }
      return result;
    });
  }

  // Ones, counted.
  Found counted() const {
    const std::optional<int64_t> axis = integer(1);
    const auto flag = [&](std::string_view which) {
      return std::get<bool>(*find_attribute(instruction_.attributes(), which));
    };
    if (!axis || known(0) == nullptr || !known(0)->is_constant() || known(0)->yes != 1 ||
        flag("reverse")) {
      return std::nullopt;
    }
    Linear linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), flag("exclusive") ? 0 : 1};
    linear.steps[static_cast<size_t>(*axis < 0 ? *axis + rank_ : *axis)] = 1;
    return Known::index(std::move(linear));
  }

  // Keeps what lies on one side of a diagonal.
  Found triangle() const {
    const std::optional<int64_t> k = operand(1) == nullptr ? 0 : integer(1);
    if (!k || known(0) == nullptr || !known(0)->is_constant() || rank_ < 2) return std::nullopt;
    const bool upper = std::get<bool>(*find_attribute(instruction_.attributes(), "upper"));
    // Above: column - row - k; below: row - column + k.
    Linear linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), upper ? -*k : *k};
    linear.steps[static_cast<size_t>(rank_) - 1] = upper ? 1 : -1;
    linear.steps[static_cast<size_t>(rank_) - 2] = upper ? -1 : 1;
    return Known{std::nullopt, {std::move(linear)}, known(0)->yes, 0};
  }

  using Function = double (*)(double a, double b, double c);
  static Function function_of(std::string_view op) {
    static const std::map<std::string_view, Function> list = {
        {"add", [](double a, double b, double) { return a + b; }},
        {"sub", [](double a, double b, double) { return a - b; }},
        {"mul", [](double a, double b, double) { return a * b; }},
        {"div", [](double a, double b, double) { return a / b; }},
        {"min", [](double a, double b, double) { return std::min(a, b); }},
        {"max", [](double a, double b, double) { return std::max(a, b); }},
        {"neg", [](double a, double, double) { return -a; }},
        {"not", [](double a, double, double) { return a == 0 ? 1.0 : 0.0; }},
        {"and", [](double a, double b, double) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
        {"or", [](double a, double b, double) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
        {"xor", [](double a, double b, double) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
        {"equal", [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
        {"less", [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
        {"less_or_equal", [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
        {"greater", [](double a, double b, double) { return a > b ? 1.0 : 0.0; }},
        {"greater_or_equal", [](double a, double b, double) { return a >= b ? 1.0 : 0.0; }},
        {"where", [](double a, double b, double c) { return a != 0 ? b : c; }},
    };
    const auto at = list.find(op);
    return at == list.end() ? nullptr : at->second;
  }

  Found elementwise() const {
    const std::string_view op = name();
    const size_t count = instruction_.operands().size();
    Function function = function_of(op);
    if (op == "cast") {
      const bool boolean = instruction_.result()->type().element == ElementType::boolean;
      function = boolean ? [](double a, double, double) { return a != 0 ? 1.0 : 0.0; }
                         : [](double a, double, double) { return a; };
      if (known(0) != nullptr && known(0)->linear && !boolean) return *known(0);
    }
    if (function == nullptr || count > 3) return std::nullopt;
    bool linear = false;
    for (size_t i = 0; i < count; ++i) {
      if (known(i) == nullptr) return std::nullopt;
      linear = linear || known(i)->linear.has_value();
    }
    return linear ? arithmetic() : choice(function);
  }

  // Operands as formulas of the result's indices.
  std::optional<Linear> linear_of(size_t i) const {
    const Known& k = *known(i);
    if (k.linear) return aligned(*k.linear, rank_);
    if (!k.is_constant() || std::trunc(k.yes) != k.yes || std::abs(k.yes) > 1e15)
      return std::nullopt;
    return Linear{std::vector<int64_t>(static_cast<size_t>(rank_), 0), static_cast<int64_t>(k.yes)};
  }

  Found arithmetic() const {
    const std::string_view op = name();
    if (instruction_.operands().size() != 2) return std::nullopt;
    const std::optional<Linear> a = linear_of(0);
    const std::optional<Linear> b = linear_of(1);
    if (!a || !b) return std::nullopt;
    if (op == "add") return Known::index(sum(*a, *b, 1));
    if (op == "sub") return Known::index(sum(*a, *b, -1));
    const auto test = [](std::vector<Linear> conditions) {
      return Known{std::nullopt, std::move(conditions), 1, 0};
    };
    const auto above = [](const Linear& x, const Linear& y, int64_t by) {
      Linear difference = sum(x, y, -1);
      difference.offset = difference.offset - Dim(by);
      return difference;
    };
    if (op == "less_or_equal") return test({above(*b, *a, 0)});
    if (op == "less") return test({above(*b, *a, 1)});
    if (op == "greater_or_equal") return test({above(*a, *b, 0)});
    if (op == "greater") return test({above(*a, *b, 1)});
    if (op == "equal") return test({above(*a, *b, 0), above(*b, *a, 0)});
    return std::nullopt;
  }

  // Choices joined by a function: still one if all that are not wholly `yes` come to the same, or
  // take a score's weight away.
  Found choice(Function function) const {
    const size_t count = instruction_.operands().size();
    std::vector<std::vector<Linear>> tests;  // different ones
    std::vector<size_t> test_of(count, 0);   // of each operand, from 1
    for (size_t i = 0; i < count; ++i) {
      std::vector<Linear> own = known(i)->conditions;
      if (own.empty()) continue;
      for (Linear& condition : own) condition = aligned(std::move(condition), rank_);
      const auto at = std::ranges::find(tests, own);
      test_of[i] = static_cast<size_t>(at - tests.begin()) + 1;
      if (at == tests.end()) tests.push_back(std::move(own));
    }
    const auto value_at = [&](size_t met) {
      double values[3] = {};
      for (size_t i = 0; i < count; ++i) {
        const bool yes = test_of[i] == 0 || (met >> (test_of[i] - 1) & 1) != 0;
        values[i] = yes ? known(i)->yes : known(i)->no;
      }
      return function(values[0], values[1], values[2]);
    };
    const size_t all = (size_t{1} << tests.size()) - 1;
    if (all == 0) return Known::constant(value_at(0));
    Known result{std::nullopt, {}, value_at(all), value_at(0)};
    for (size_t met = 0; met < all; ++met) {
      const double value = value_at(met);
      const bool same = value == result.no || (value <= kMasked && result.no <= kMasked);
      if (!same) return std::nullopt;
      result.no = std::max(result.no, value);
    }
    for (std::vector<Linear>& test : tests) {
      result.conditions.insert(result.conditions.end(), test.begin(), test.end());
    }
    return result;
  }

  const Instruction& instruction_;
  const std::map<const Value*, Known>& known_;
  int rank_;
};

// One condition can be turned about: not (x >= 0) is -x - 1 >= 0.
void prefer_yes(Known& known) {
  if (known.conditions.size() != 1 || !(known.yes < known.no)) return;
  Linear& condition = known.conditions.front();
  for (int64_t& step : condition.steps) step = -step;
  condition.offset = Dim(-1) - condition.offset;
  std::swap(known.yes, known.no);
}

}  // namespace

PositionFlow::PositionFlow(const Module& main, std::map<const Value*, Known> given)
    : known_(std::move(given)) {
  for (const auto& instruction : main.instructions()) {
    if (instruction->results().size() != 1) continue;
    if (Found found = Rule(*instruction, known_).run()) {
      prefer_yes(*found);
      known_[instruction->result()] = std::move(*found);
    }
  }
}

const Known* PositionFlow::find(const Value* value) const {
  const auto at = known_.find(value);
  return at == known_.end() ? nullptr : &at->second;
}

std::optional<KeyMask> key_mask(const Known& mask, bool boolean, double scale, const Dim& past,
                                const Dim& keys) {
  if (mask.linear || mask.conditions.empty()) return std::nullopt;
  const bool right =
      boolean ? mask.yes != 0 && mask.no == 0 : mask.yes == 0 && mask.no * scale <= kMasked;
  if (!right) return std::nullopt;
  KeyMask result;
  bool causal = false;
  for (const Linear& condition : mask.conditions) {
    const size_t rank = condition.steps.size();
    if (rank < 2) return std::nullopt;
    for (size_t axis = 0; axis + 2 < rank; ++axis) {
      if (condition.steps[axis] != 0) return std::nullopt;
    }
    const int64_t row = condition.steps[rank - 2];
    const int64_t key = condition.steps[rank - 1];
    if (row == 1 && key == -1 && condition.offset == past) {
      causal = true;
    } else if (row == -1 && key == 1) {
      // key > past + row - window
      const std::optional<int64_t> reach = (condition.offset + past).constant();
      if (!reach || *reach < 0) return std::nullopt;
      result.window = result.window == 0 ? *reach + 1 : std::min(result.window, *reach + 1);
    } else if (row == 0 && key == -1) {
      if (less_equal(keys - Dim(1), condition.offset) != Ternary::yes) return std::nullopt;
    } else if (row != 0 || key < 0 || less_equal(0, condition.offset) != Ternary::yes) {
      return std::nullopt;
    }
  }
  return causal ? std::optional(result) : std::nullopt;
}

}  // namespace lathe
