// SPDX-License-Identifier: MIT
#include "ir/rule.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "ir/ops.h"
#include "tensor/convert.h"

namespace lathe {

struct Pattern::Node {
  enum class Kind : uint8_t { value, literal, constant, op };
  Kind kind = Kind::value;
  std::string_view name{};  // the bound name; may be empty for constant and op
  double number = 0;
  const Op* op = nullptr;
  std::vector<Pattern> operands{};
  Attributes attributes{};
};

namespace {

using Node = Pattern::Node;

Pattern pattern_of(Node node) { return Pattern(std::make_shared<const Node>(std::move(node))); }

const Tensor* fixed_literal(const Value& value) {
  const Instruction* definition = value.definition();
  if (definition == nullptr || definition->literal() == nullptr) return nullptr;
  return definition->literal()->bindable ? nullptr : &definition->literal()->tensor;
}

// True if every element has the bits of `number` in the tensor's type, which must represent it.
bool holds_only(const Tensor& tensor, double number) {
  const ElementType type = tensor.type();
  if (!is_floating(type) && !is_integer(type)) return false;
  // Larger literals are skipped: ones and zeros in models are small.
  if (tensor.count() < 1 || tensor.count() > 4096) return false;
  double stored = 0;
  std::array<std::byte, 8> bits{};
  convert(type, bits.data(), ElementType::f64, &number, 1);
  convert(ElementType::f64, &stored, type, bits.data(), 1);
  if (!(stored == number)) return false;
  const Tensor dense = tensor.dense();
  if (is_packed(type)) {
    for (int64_t i = 0; i < dense.count(); ++i) {
      const double element = load_double(type, dense.data(), i);
      if (element != number || std::signbit(element) != std::signbit(number)) return false;
    }
    return true;
  }
  const auto bytes = static_cast<size_t>(info(type).bits / 8);
  for (int64_t i = 0; i < dense.count(); ++i) {
    if (std::memcmp(dense.as<std::byte>() + static_cast<size_t>(i) * bytes, bits.data(), bytes) !=
        0) {
      return false;
    }
  }
  return true;
}

}  // namespace

Pattern Pattern::named(std::string_view name) const {
  Node node = *node_;
  node.name = name;
  return pattern_of(std::move(node));
}

Pattern value(std::string_view name) { return pattern_of({.name = name}); }
Pattern literal(std::string_view name) {
  return pattern_of({.kind = Node::Kind::literal, .name = name});
}
Pattern constant(double number) {
  return pattern_of({.kind = Node::Kind::constant, .number = number});
}
Pattern op(const Op& op, std::vector<Pattern> operands, Attributes attributes) {
  return pattern_of({.kind = Node::Kind::op,
                     .op = &op,
                     .operands = std::move(operands),
                     .attributes = std::move(attributes)});
}
Pattern operator+(const Pattern& a, const Pattern& b) { return op(ops::add, {a, b}); }
Pattern operator-(const Pattern& a, const Pattern& b) { return op(ops::sub, {a, b}); }
Pattern operator*(const Pattern& a, const Pattern& b) { return op(ops::mul, {a, b}); }
Pattern operator/(const Pattern& a, const Pattern& b) { return op(ops::div, {a, b}); }

Value* Match::operator[](std::string_view name) const {
  for (const auto& [bound, value] : bound_) {
    if (bound == name) return value;
  }
  fail(ErrorKind::internal, "the pattern around a '{}' binds no '{}'", root_->op().name, name);
}

// Matches patterns. A failed attempt undoes its bindings.
class Matcher {
 public:
  explicit Matcher(Match& match) : match_(match) {}

  bool fits(const Pattern& pattern, Value* value) {
    const Node& node = pattern.node();
    const size_t bound = match_.bound_.size();
    if (fits_kind(node, value) && bind(node.name, value)) return true;
    match_.bound_.resize(bound);
    return false;
  }

 private:
  bool fits_kind(const Node& node, Value* value) {
    switch (node.kind) {
      case Node::Kind::value:
        return true;
      case Node::Kind::literal:
        return fixed_literal(*value) != nullptr;
      case Node::Kind::constant: {
        const Tensor* tensor = fixed_literal(*value);
        return tensor != nullptr && holds_only(*tensor, node.number);
      }
      case Node::Kind::op:
        return value->definition() != nullptr && fits_op(node, *value->definition());
    }
    return false;
  }

  bool fits_op(const Node& node, const Instruction& instruction) {
    if (&instruction.op() != node.op || instruction.results().size() != 1 ||
        instruction.operands().size() != node.operands.size()) {
      return false;
    }
    for (const auto& [name, wanted] : node.attributes) {
      const Attribute* has = find_attribute(instruction.attributes(), name);
      if (has == nullptr || !(*has == wanted)) return false;
    }
    if (fits_operands(node, instruction, false)) return true;
    const bool commutes =
        (instruction.op().traits & kCommutative) != 0 && node.operands.size() == 2;
    return commutes && fits_operands(node, instruction, true);
  }

  bool fits_operands(const Node& node, const Instruction& instruction, bool exchanged) {
    const size_t bound = match_.bound_.size();
    const size_t count = node.operands.size();
    for (size_t i = 0; i < count; ++i) {
      Value* operand = instruction.operands()[exchanged ? count - 1 - i : i];
      if (operand == nullptr || !fits(node.operands[i], operand)) {
        match_.bound_.resize(bound);
        return false;
      }
    }
    return true;
  }

  bool bind(std::string_view name, Value* value) {
    if (name.empty()) return true;
    for (const auto& [other, bound] : match_.bound_) {
      if (other == name) return bound == value;
    }
    match_.bound_.emplace_back(name, value);
    return true;
  }

  Match& match_;
};

bool Match::fits(const Pattern& pattern) {
  bound_.clear();
  return root_->results().size() == 1 && Matcher(*this).fits(pattern, root_->result());
}

const Op* root_op(const Pattern& pattern) { return pattern.node().op; }

namespace {

Value* build(const Pattern& pattern, Match& match) {
  const Node& node = pattern.node();
  switch (node.kind) {
    case Node::Kind::value:
    case Node::Kind::literal:
      return match[node.name];
    case Node::Kind::constant:
      return match.b.scalar(match.root().result()->type().element, node.number);
    case Node::Kind::op:
      break;
  }
  std::vector<Value*> operands;
  for (const Pattern& operand : node.operands) operands.push_back(build(operand, match));
  return match.b(*node.op, std::move(operands), node.attributes);
}

}  // namespace

Rule::Rule(std::string_view rule_name, Pattern before, Replace after, std::source_location at)
    : name(rule_name), pattern(std::move(before)), replace(std::move(after)), place(at) {}

Rule::Rule(std::string_view rule_name, Pattern before, const Pattern& after, Condition condition,
           std::source_location at)
    : Rule(
          rule_name, std::move(before),
          [after, condition = std::move(condition)](Match& match) -> Value* {
            if (condition && !condition(match)) return nullptr;
            return build(after, match);
          },
          at) {}

}  // namespace lathe
