// SPDX-License-Identifier: MIT
#include "passes/value_queries.h"

#include <algorithm>

#include "ir/ops.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

const Literal* literal_of(const Value& value) {
  const Instruction* definition = value.definition();
  const bool is_fixed =
      definition != nullptr && definition->literal() != nullptr && !definition->literal()->bindable;
  return is_fixed ? definition->literal().get() : nullptr;
}

bool is_number(ElementType type) { return (type_bit(type) & kNumeric) != 0; }

}  // namespace

bool is_constant(const Value& value) {
  return literal_of(value) != nullptr ||
         (value.definition() != nullptr && value.definition()->deferred());
}

std::vector<double> numbers_of(const Value& value) {
  const Literal* literal = literal_of(value);
  if (literal == nullptr || !is_number(literal->tensor.type())) return {};
  const Tensor tensor = literal->tensor.dense();
  std::vector<double> numbers(static_cast<size_t>(tensor.count()));
  convert(ElementType::f64, numbers.data(), tensor.type(), tensor.data(), tensor.count());
  return numbers;
}

std::optional<double> number_of(const Value& value) {
  const Literal* literal = literal_of(value);
  if (literal == nullptr || literal->tensor.count() != 1 || !is_number(literal->tensor.type())) {
    return std::nullopt;
  }
  return numbers_of(value)[0];
}

bool is_lookup(const Instruction& instruction) {
  if (instruction.op() != ops::gather || instruction.deferred()) return false;
  const Value& table = *instruction.operands()[0];
  const Attribute* axis = find_attribute(instruction.attributes(), "axis");
  const int64_t at = axis == nullptr ? 0 : std::get<int64_t>(*axis);
  return literal_of(table) != nullptr && table.type().is_ranked() && table.type().rank() == 2 &&
         (at == 0 || at == -2);
}

const Instruction* defined_by(const Value& value, const Op& op) {
  return value.definition() != nullptr && value.definition()->op() == op ? value.definition()
                                                                         : nullptr;
}

std::vector<int64_t> kept_axes(const Instruction& reduction) {
  const auto flag = [&](std::string_view name) {
    const Attribute* found = find_attribute(reduction.attributes(), name);
    return found != nullptr && std::get<bool>(*found);
  };
  if (!flag("keep_dims") || reduction.operands().size() < 2 || reduction.operands()[1] == nullptr ||
      !reduction.operands()[0]->type().is_ranked()) {
    return {};
  }
  std::vector<int64_t> axes;
  for (const double axis : numbers_of(*reduction.operands()[1])) {
    const auto own = static_cast<int64_t>(axis);
    axes.push_back(own < 0 ? own + reduction.operands()[0]->type().rank() : own);
  }
  std::ranges::sort(axes);
  return axes;
}

}  // namespace lathe
