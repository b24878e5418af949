// SPDX-License-Identifier: MIT
#include "codegen/narrow.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace lathe::codegen {
namespace {

using Wide = __int128;
constexpr Wide kLeast = std::numeric_limits<int32_t>::min();
constexpr Wide kMost = std::numeric_limits<int32_t>::max();

bool is_wide(ExprType type) { return type == ExprType::i64 || type == ExprType::u64; }

// What an i32 in place of a wide node holds: its value, which is in this range, or its low bits.
struct Narrow {
  bool low_bits = false;
  Wide least = kLeast, most = kMost;
  bool is_exact() const { return !low_bits; }
};

class Narrower {
 public:
  explicit Narrower(const KernelDescription& kernel) : kernel_(kernel) {}

  KernelDescription run() {
    KernelDescription out{.operands = kernel_.operands};
    const std::vector<Node>& nodes = kernel_.form.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      found_.push_back(find(nodes[i]));
      ids_.push_back(add(nodes[i], out.form));
    }
    for (const Phase& phase : kernel_.phases) {
      Phase& to = out.phases.emplace_back(phase);
      for (Store& store : to.stores) {
        const auto value = static_cast<size_t>(store.value);
        const ElementType element = out.operands[static_cast<size_t>(store.operand)].type;
        if (is_wide(store.type) && found_[value] && suits(element, *found_[value])) {
          store.type = ExprType::i32;
        }
        store.value = ids_[value];
      }
      for (Reduction& next : to.reductions) next.value = ids_[static_cast<size_t>(next.value)];
    }
    return out;
  }

 private:
  // Low bits are enough for narrow elements.
  static bool suits(ElementType element, const Narrow& value) {
    return info(element).bits <= 32 || value.is_exact();
  }
  const std::optional<Narrow>& of(const Node& node, size_t input) const {
    return found_[static_cast<size_t>(node.inputs[input])];
  }
  ExprType type_of(NodeId id) const { return kernel_.form[id].type; }

  // The node in the new form: narrow if all its wide inputs and its result are.
  NodeId add(const Node& node, LinearForm& form) {
    const auto narrow = [&](ExprType type) {
      return is_wide(type) && found_.back() ? ExprType::i32 : type;
    };
    switch (node.kind) {
      case Node::Kind::load:
        return form.load(static_cast<int>(node.bits), narrow(node.type));
      case Node::Kind::scalar:
        return form.scalar(static_cast<int>(node.bits), node.type);
      case Node::Kind::constant:
        return form.constant(narrow(node.type), narrow(node.type) == ExprType::i32
                                                    ? static_cast<uint32_t>(node.bits)
                                                    : node.bits);
      default:
        break;
    }
    std::array<NodeId, 3> inputs{};
    for (size_t i = 0; i < node.count(); ++i) {
      inputs[i] = ids_[static_cast<size_t>(node.inputs[i])];
    }
    const ExprType input =
        is_wide(node.input_type) && reads_narrow(node) ? ExprType::i32 : node.input_type;
    if (LinearForm::truncates(node)) return form.truncate(inputs[0]);
    return form.operation(node.op, narrow(node.type), input, std::span(inputs).first(node.count()));
  }

  bool reads_narrow(const Node& node) const {
    for (size_t i = 0; i < node.count(); ++i) {
      if (!is_wide(type_of(node.inputs[i])) || (of(node, i) && of(node, i)->is_exact())) continue;
      const bool wraps = node.op == ExprOp::convert && node.type == ExprType::i32;
      return wraps ? of(node, i).has_value() : is_wide(node.type) && found_.back();
    }
    return true;
  }

  static std::optional<Narrow> in_range(Wide least, Wide most, bool may_wrap = true) {
    if (least >= kLeast && most <= kMost) return Narrow{false, least, most};
    return may_wrap ? std::optional(Narrow{.low_bits = true}) : std::nullopt;
  }

  // What replaces a wide node; none: it stays wide.
  std::optional<Narrow> find(const Node& node) const {
    if (!is_wide(node.type)) return std::nullopt;
    switch (node.kind) {
      case Node::Kind::load:
        return of_element(kernel_.operands[node.bits].type);
      case Node::Kind::constant: {
        const Wide value =
            node.type == ExprType::i64 ? Wide{static_cast<int64_t>(node.bits)} : Wide{node.bits};
        return in_range(value, value);
      }
      case Node::Kind::operation:
        return of_operation(node);
      default:
        return std::nullopt;
    }
  }

  static std::optional<Narrow> of_element(ElementType type) {
    if (!is_integer(type) || info(type).bits < 8) return std::nullopt;
    if (info(type).bits > 32) return Narrow{.low_bits = true};
    if (info(type).cls == ElementClass::signed_int) {
      const Wide half = Wide{1} << (info(type).bits - 1);
      return in_range(-half, half - 1);
    }
    return in_range(0, (Wide{1} << info(type).bits) - 1);
  }

  std::optional<Narrow> of_operation(const Node& node) const {
    if (node.op == ExprOp::convert) return of_conversion(node);
    const size_t first = node.op == ExprOp::select ? 1 : 0;
    for (size_t i = first; i < node.count(); ++i) {
      if (!of(node, i)) return std::nullopt;
    }
    const Narrow& a = *of(node, first);
    if (node.count() == first + 1) return of_unary(node, a);
    return of_binary(node, a, *of(node, first + 1));
  }

  // From a boolean, an i32 or another wide type; wraps.
  std::optional<Narrow> of_conversion(const Node& node) const {
    if (node.input_type == ExprType::boolean) return in_range(0, 1);
    if (node.input_type == ExprType::i32) {
      return node.type == ExprType::i64 ? in_range(kLeast, kMost) : Narrow{.low_bits = true};
    }
    if (!is_wide(node.input_type) || !of(node, 0)) return std::nullopt;
    const Narrow& a = *of(node, 0);
    const bool same = a.is_exact() && (node.type == node.input_type || a.least >= 0);
    return same ? a : Narrow{.low_bits = true};
  }

  // Values of u64 are exact if they are not negative.
  static std::optional<Narrow> checked(const Node& node, Wide least, Wide most) {
    if (node.type == ExprType::u64 && least < 0) return Narrow{.low_bits = true};
    return in_range(least, most);
  }

  static std::optional<Narrow> of_unary(const Node& node, const Narrow& a) {
    switch (node.op) {
      case ExprOp::neg:
        return a.low_bits ? a : checked(node, -a.most, -a.least);
      case ExprOp::bit_not:
        return a.low_bits ? a : checked(node, -a.most - 1, -a.least - 1);
      case ExprOp::abs:
        if (a.low_bits) return std::nullopt;
        return checked(node, 0, std::max(-a.least, a.most));
      default:
        return std::nullopt;
    }
  }

  static std::optional<Narrow> of_binary(const Node& node, const Narrow& a, const Narrow& b) {
    const bool exact = a.is_exact() && b.is_exact();
    const Narrow low{.low_bits = true};
    const Wide least = std::min(a.least, b.least), most = std::max(a.most, b.most);
    switch (node.op) {
      case ExprOp::add:
        return exact ? checked(node, a.least + b.least, a.most + b.most) : low;
      case ExprOp::sub:
        return exact ? checked(node, a.least - b.most, a.most - b.least) : low;
      case ExprOp::mul: {
        if (!exact) return low;
        const auto [from, to] =
            std::minmax({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
        return checked(node, from, to);
      }
      case ExprOp::bit_and:
      case ExprOp::bit_or:
      case ExprOp::bit_xor:
        return !exact ? low : least >= 0 ? in_range(0, kMost) : checked(node, kLeast, kMost);
      case ExprOp::select:
        return exact ? in_range(least, most) : low;
      case ExprOp::min:
      case ExprOp::max:
        return exact ? in_range(least, most) : std::optional<Narrow>();
      case ExprOp::shift_right:  // by more than 31 bits too: the sign remains
        return exact ? in_range(std::min<Wide>(a.least, 0), std::max<Wide>(a.most, 0))
                     : std::optional<Narrow>();
      default:
        return of_shift(node, a, b);
    }
  }

  // Left, by a known number of bits.
  static std::optional<Narrow> of_shift(const Node& node, const Narrow& a, const Narrow& b) {
    constexpr Wide kBits = 32;
    const bool known = b.is_exact() && b.least == b.most && b.least >= 0 && b.least < kBits;
    if (node.op != ExprOp::shift_left || !known) return std::nullopt;
    if (a.low_bits) return a;
    const Wide factor = Wide{1} << static_cast<int>(b.least);
    return checked(node, a.least * factor, a.most * factor);
  }

  const KernelDescription& kernel_;
  std::vector<std::optional<Narrow>> found_;  // of each node, where it is wide
  std::vector<NodeId> ids_;                   // in the new form
};

}  // namespace

KernelDescription narrow(const KernelDescription& kernel) { return Narrower(kernel).run(); }

}  // namespace lathe::codegen
