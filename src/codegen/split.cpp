// SPDX-License-Identifier: MIT
#include "codegen/split.h"

#include <array>
#include <cstdint>

namespace lathe::codegen {
namespace {

constexpr uint64_t kLow = 0xffffffff, kSign = 0x80000000, kHalf = 0xffff;
constexpr int kBits = 32;

bool is_wide(ExprType type) { return type == ExprType::i64 || type == ExprType::u64; }

class Splitter {
 public:
  explicit Splitter(const KernelDescription& kernel) : kernel_(kernel) {}

  std::optional<KernelDescription> run() {
    for (const Node& node : kernel_.form.nodes()) {
      const std::optional<Pair> pair = add(node);
      if (!pair) return std::nullopt;
      pairs_.push_back(*pair);
    }
    KernelDescription out{.operands = kernel_.operands};
    for (const Phase& phase : kernel_.phases) {
      Phase& to = out.phases.emplace_back(phase);
      for (Store& store : to.stores) {
        const Pair value = pair(store.value);
        store.value = value.low;
        if (!is_wide(store.type)) continue;
        store.type = ExprType::i32;
        const ElementType element = out.operands[static_cast<size_t>(store.operand)].type;
        if (info(element).bits > kBits) store.high = value.high;
      }
      for (Reduction& next : to.reductions) next.value = pair(next.value).low;
    }
    out.form = std::move(form_);
    return out;
  }

 private:
  // A node that is not wide has the low one alone.
  struct Pair {
    NodeId low = kNone, high = kNone;
  };

  const Pair& pair(NodeId id) const { return pairs_[static_cast<size_t>(id)]; }
  const Pair& in(const Node& node, size_t i) const { return pair(node.inputs[i]); }

  NodeId number(uint64_t bits) { return form_.constant(ExprType::i32, bits & kLow); }
  NodeId of(ExprOp op, NodeId a, NodeId b) {
    return form_.operation(op, ExprType::i32, ExprType::i32, std::array{a, b});
  }
  NodeId compare(ExprOp op, NodeId a, NodeId b) {
    return form_.operation(op, ExprType::boolean, ExprType::i32, std::array{a, b});
  }
  NodeId logic(ExprOp op, NodeId a, NodeId b) {
    return form_.operation(op, ExprType::boolean, ExprType::boolean, std::array{a, b});
  }
  NodeId no(NodeId a) {
    return form_.operation(ExprOp::bit_not, ExprType::boolean, ExprType::boolean, std::array{a});
  }
  NodeId choose(NodeId condition, NodeId a, NodeId b) {
    return form_.operation(ExprOp::select, ExprType::i32, ExprType::i32,
                           std::array{condition, a, b});
  }
  NodeId integer(NodeId condition) {
    return form_.operation(ExprOp::convert, ExprType::i32, ExprType::boolean,
                           std::array{condition});
  }
  NodeId with_sign_changed(NodeId x) {
    const Node& node = form_[x];
    if (node.kind == Node::Kind::constant) return number(node.bits ^ kSign);
    return of(ExprOp::bit_xor, x, number(kSign));
  }
  NodeId shift(ExprOp op, NodeId x, int amount) {
    return amount == 0 ? x : of(op, x, number(static_cast<uint64_t>(amount)));
  }
  // Fills with zeros; by fewer than 32 bits.
  NodeId shift_right(NodeId x, int amount) {
    if (amount == 0) return x;
    return of(ExprOp::bit_and, shift(ExprOp::shift_right, x, amount), number(kLow >> amount));
  }
  NodeId sign(NodeId x) { return shift(ExprOp::shift_right, x, kBits - 1); }

  NodeId less_unsigned(NodeId a, NodeId b) {
    return compare(ExprOp::lt, with_sign_changed(a), with_sign_changed(b));
  }
  NodeId less(const Pair& a, const Pair& b, bool is_signed) {
    const NodeId high =
        is_signed ? compare(ExprOp::lt, a.high, b.high) : less_unsigned(a.high, b.high);
    const NodeId low =
        logic(ExprOp::bit_and, compare(ExprOp::eq, a.high, b.high), less_unsigned(a.low, b.low));
    return logic(ExprOp::bit_or, high, low);
  }
  Pair choose(NodeId condition, const Pair& a, const Pair& b) {
    return {choose(condition, a.low, b.low), choose(condition, a.high, b.high)};
  }
  Pair halves(ExprOp op, const Pair& a, const Pair& b) {
    return {of(op, a.low, b.low), of(op, a.high, b.high)};
  }
  Pair sum(const Pair& a, const Pair& b) {
    const NodeId low = of(ExprOp::add, a.low, b.low);
    const NodeId carry = integer(less_unsigned(low, a.low));
    return {low, of(ExprOp::add, of(ExprOp::add, a.high, b.high), carry)};
  }
  Pair difference(const Pair& a, const Pair& b) {
    const NodeId borrow = integer(less_unsigned(a.low, b.low));
    return {of(ExprOp::sub, a.low, b.low),
            of(ExprOp::sub, of(ExprOp::sub, a.high, b.high), borrow)};
  }

  // The high half of a product of unsigned numbers, by products of 16 bits.
  NodeId high_product(NodeId a, NodeId b) {
    constexpr int kHalfBits = 16;
    const auto low = [&](NodeId x) { return of(ExprOp::bit_and, x, number(kHalf)); };
    const auto high = [&](NodeId x) { return shift_right(x, kHalfBits); };
    const NodeId first = of(ExprOp::mul, low(a), high(b)),
                 second = of(ExprOp::mul, high(a), low(b));
    NodeId middle = of(ExprOp::add, high(of(ExprOp::mul, low(a), low(b))), low(first));
    middle = of(ExprOp::add, middle, low(second));
    NodeId out = of(ExprOp::add, of(ExprOp::mul, high(a), high(b)), high(first));
    out = of(ExprOp::add, out, high(second));
    return of(ExprOp::add, out, high(middle));
  }
  Pair product(const Pair& a, const Pair& b) {
    NodeId high = of(ExprOp::add, of(ExprOp::mul, a.high, b.low), of(ExprOp::mul, a.low, b.high));
    high = of(ExprOp::add, high, high_product(a.low, b.low));
    return {of(ExprOp::mul, a.low, b.low), high};
  }

  Pair shifted_left(const Pair& x, uint64_t amount) {
    if (amount >= 2 * kBits) return {number(0), number(0)};
    const auto by = static_cast<int>(amount);
    if (by >= kBits) return {number(0), shift(ExprOp::shift_left, x.low, by - kBits)};
    if (by == 0) return x;
    return {
        shift(ExprOp::shift_left, x.low, by),
        of(ExprOp::bit_or, shift(ExprOp::shift_left, x.high, by), shift_right(x.low, kBits - by))};
  }
  Pair shifted_right(const Pair& x, uint64_t amount, bool is_signed) {
    const NodeId fill = is_signed ? sign(x.high) : number(0);
    const auto by = static_cast<int>(amount);
    const auto of_high = [&](int bits) {
      return is_signed ? shift(ExprOp::shift_right, x.high, bits) : shift_right(x.high, bits);
    };
    if (amount >= 2 * kBits) return {fill, fill};
    if (by >= kBits) return {of_high(by - kBits), fill};
    if (by == 0) return x;
    return {
        of(ExprOp::bit_or, shift_right(x.low, by), shift(ExprOp::shift_left, x.high, kBits - by)),
        of_high(by)};
  }

  std::optional<Pair> add(const Node& node) {
    switch (node.kind) {
      case Node::Kind::constant:
        if (is_wide(node.type)) return Pair{number(node.bits), number(node.bits >> kBits)};
        return Pair{form_.constant(node.type, node.bits)};
      case Node::Kind::scalar:
        return Pair{form_.scalar(static_cast<int>(node.bits), node.type)};
      case Node::Kind::operation:
        return of_operation(node);
      default:
        return of_element(node);
    }
  }

  Pair of_element(const Node& node) {
    const auto operand = static_cast<int>(node.bits);
    if (!is_wide(node.type)) return {form_.load(operand, node.type)};
    const ElementType type = kernel_.operands[node.bits].type;
    const NodeId low = form_.load(operand, ExprType::i32);
    if (info(type).bits > kBits) return {low, form_.load_high(operand)};
    return {low, info(type).cls == ElementClass::signed_int ? sign(low) : number(0)};
  }

  std::optional<Pair> of_operation(const Node& node) {
    if (node.op == ExprOp::convert) return of_conversion(node);
    if (!is_wide(node.type) && !is_wide(node.input_type)) return Pair{same(node)};
    const size_t first = node.op == ExprOp::select ? 1 : 0;
    for (size_t i = first; i < node.count(); ++i) {
      if (!is_wide(kernel_.form[node.inputs[i]].type)) return std::nullopt;  // a bit cast
    }
    const Pair& a = in(node, first);
    if (node.count() == first + 1) return of_unary(node, a);
    return of_binary(node, a, in(node, first + 1));
  }

  NodeId same(const Node& node) {
    std::array<NodeId, 3> inputs{};
    for (size_t i = 0; i < node.count(); ++i) inputs[i] = in(node, i).low;
    if (LinearForm::truncates(node)) return form_.truncate(inputs[0]);
    return form_.operation(node.op, node.type, node.input_type,
                           std::span(inputs).first(node.count()));
  }

  std::optional<Pair> of_conversion(const Node& node) {
    const ExprType from = node.input_type;
    if (!is_wide(node.type) && !is_wide(from)) return Pair{same(node)};
    const Pair& x = in(node, 0);
    if (is_wide(node.type)) {
      if (is_wide(from)) return x.high == kNone ? std::nullopt : std::optional(x);
      if (from == ExprType::boolean) return Pair{integer(x.low), number(0)};
      if (from == ExprType::i32) return Pair{x.low, sign(x.low)};
      return std::nullopt;
    }
    if (x.high == kNone) return std::nullopt;
    if (node.type == ExprType::i32) return Pair{x.low};
    if (node.type != ExprType::boolean) return std::nullopt;
    return Pair{compare(ExprOp::ne, of(ExprOp::bit_or, x.low, x.high), number(0))};
  }

  std::optional<Pair> of_unary(const Node& node, const Pair& x) {
    const ExprOp op = node.op;
    const Pair zero{number(0), number(0)};
    if (op == ExprOp::neg) return difference(zero, x);
    if (op == ExprOp::abs && node.input_type != ExprType::i64) return x;
    if (op == ExprOp::abs)
      return choose(compare(ExprOp::lt, x.high, zero.high), difference(zero, x), x);
    if (op != ExprOp::bit_not) return std::nullopt;
    return halves(ExprOp::bit_xor, x, {number(kLow), number(kLow)});
  }

  std::optional<Pair> of_binary(const Node& node, const Pair& a, const Pair& b) {
    const bool is_signed = node.input_type == ExprType::i64;
    const auto equal = [&] {
      return logic(ExprOp::bit_and, compare(ExprOp::eq, a.low, b.low),
                   compare(ExprOp::eq, a.high, b.high));
    };
    switch (node.op) {
      case ExprOp::add:
        return sum(a, b);
      case ExprOp::sub:
        return difference(a, b);
      case ExprOp::mul:
        return product(a, b);
      case ExprOp::bit_and:
      case ExprOp::bit_or:
      case ExprOp::bit_xor:
        return halves(node.op, a, b);
      case ExprOp::select:
        return choose(in(node, 0).low, a, b);
      case ExprOp::min:
        return choose(less(b, a, is_signed), b, a);
      case ExprOp::max:
        return choose(less(a, b, is_signed), b, a);
      case ExprOp::eq:
        return Pair{equal()};
      case ExprOp::ne:
        return Pair{no(equal())};
      case ExprOp::lt:
        return Pair{less(a, b, is_signed)};
      case ExprOp::gt:
        return Pair{less(b, a, is_signed)};
      case ExprOp::le:
        return Pair{no(less(b, a, is_signed))};
      case ExprOp::ge:
        return Pair{no(less(a, b, is_signed))};
      default:
        return of_shift(node, a);
    }
  }

  std::optional<Pair> of_shift(const Node& node, const Pair& x) {
    const Node& amount = kernel_.form[node.inputs[1]];
    if (amount.kind != Node::Kind::constant) return std::nullopt;
    if (node.op == ExprOp::shift_left) return shifted_left(x, amount.bits);
    if (node.op != ExprOp::shift_right) return std::nullopt;
    return shifted_right(x, amount.bits, node.type == ExprType::i64);
  }

  const KernelDescription& kernel_;
  LinearForm form_;
  std::vector<Pair> pairs_;  // of each node
};

}  // namespace

std::optional<KernelDescription> split(const KernelDescription& kernel) {
  return Splitter(kernel).run();
}

}  // namespace lathe::codegen
