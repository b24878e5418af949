// SPDX-License-Identifier: MIT
// A description of a generated kernel, computed by CompiledExpr: one program for each store and
// reduction.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "codegen/kernel.h"
#include "ops/interpret.h"

namespace lathe::bench {

// The nodes of a linear form as expressions: argument i is operand i, scalars follow the operands.
class Expressions {
 public:
  explicit Expressions(const codegen::KernelDescription& kernel) : kernel_(kernel) {
    for (const codegen::Node& node : kernel.form.nodes()) made_.push_back(make(node));
  }

  // As the compute type of the element that it is stored as.
  Expr stored(const codegen::Store& store, ElementType type) const {
    const codegen::NodeId id = store.value;
    const codegen::Node& node = kernel_.form[id];
    const ExprType wide = compute_type(type);
    if (store.high != codegen::kNone) {
      return (convert(made(store.high), wide) << 32) |
             (convert(made(id), wide) & int64_t{0xffffffff});
    }
    if (codegen::LinearForm::truncates(node)) {  // negative ones wrap, too
      return convert(convert(at(node.inputs[0]), ExprType::i64), wide);
    }
    const bool is_bits = is_floating(store.type) && !is_floating(made(id).type());
    const Expr x = is_bits ? bitcast(made(id), store.type) : made(id);
    return x.type() == wide ? x : convert(x, wide);
  }
  const Expr& made(codegen::NodeId id) const { return made_[static_cast<size_t>(id)]; }

 private:
  const Expr& at(codegen::NodeId id) const { return made(id); }

  // An integer that is loaded, as it is in memory.
  Expr as(const Expr& x, ExprType type) const {
    const bool is_load =
        x.op() == ExprOp::convert && x.inputs()[0].op() == ExprOp::argument && is_integer(x.type());
    return convert(is_load ? x.inputs()[0] : x, type);
  }

  Expr make(const codegen::Node& node) const {
    using Kind = codegen::Node::Kind;
    if (node.kind == Kind::constant) return Expr::constant_from_bits(node.type, node.bits);
    const auto index = static_cast<int>(node.bits);
    if (node.kind == Kind::scalar) {
      return Expr::argument(static_cast<int>(kernel_.operands.size()) + index, node.type);
    }
    if (node.kind == Kind::load_high) {
      const Expr x = Expr::argument(index, compute_type(kernel_.operands[node.bits].type));
      return convert(x >> 32, ExprType::i32);
    }
    if (node.kind == Kind::load) {
      const ExprType wide = compute_type(kernel_.operands[node.bits].type);
      const Expr x = Expr::argument(index, wide);
      return wide == node.type ? x : convert(x, node.type);
    }
    const size_t first = node.op == ExprOp::select ? 1 : 0;  // of the inputs of that type
    const auto in = [&](size_t i) {
      const Expr& x = at(node.inputs[i]);
      return i >= first && x.type() != node.input_type ? bitcast(x, node.input_type) : x;
    };
    switch (node.op) {
      case ExprOp::add:
        return in(0) + in(1);
      case ExprOp::sub:
        return in(0) - in(1);
      case ExprOp::mul:
        return in(0) * in(1);
      case ExprOp::div:
        return in(0) / in(1);
      case ExprOp::fma:
        return fma(in(0), in(1), in(2));
      case ExprOp::neg:
        return -in(0);
      case ExprOp::abs:
        return abs(in(0));
      case ExprOp::min:
        return min(in(0), in(1));
      case ExprOp::max:
        return max(in(0), in(1));
      case ExprOp::floor:
        return floor(in(0));
      case ExprOp::ceil:
        return ceil(in(0));
      case ExprOp::trunc:
        return trunc(in(0));
      case ExprOp::round_even:
        return round_even(in(0));
      case ExprOp::sqrt:
        return sqrt(in(0));
      case ExprOp::eq:
        return in(0) == in(1);
      case ExprOp::ne:
        return in(0) != in(1);
      case ExprOp::lt:
        return in(0) < in(1);
      case ExprOp::le:
        return in(0) <= in(1);
      case ExprOp::gt:
        return in(0) > in(1);
      case ExprOp::ge:
        return in(0) >= in(1);
      case ExprOp::bit_and:
        return in(0) & in(1);
      case ExprOp::bit_or:
        return in(0) | in(1);
      case ExprOp::bit_xor:
        return in(0) ^ in(1);
      case ExprOp::bit_not:
        return ~in(0);
      case ExprOp::shift_left:
        return in(0) << in(1);
      case ExprOp::shift_right:
        return in(0) >> in(1);
      case ExprOp::select:
        return select(in(0), in(1), in(2));
      case ExprOp::convert:
        return as(in(0), node.type);
      case ExprOp::is_nan:
        return is_nan(in(0));
      default:
        fail(ErrorKind::internal, "{} is no operation", to_string(node.op));
    }
  }

  const codegen::KernelDescription& kernel_;
  std::vector<Expr> made_;
};

class Referee {
 public:
  explicit Referee(const codegen::KernelDescription& kernel) : kernel_(kernel) {
    const Expressions expressions(kernel);
    for (const codegen::Phase& phase : kernel.phases) {
      for (const codegen::Store& store : phase.stores) {
        const ElementType type = kernel.operands[static_cast<size_t>(store.operand)].type;
        programs_.emplace_back(expressions.stored(store, type));
      }
      for (const codegen::Reduction& next : phase.reductions) {
        programs_.emplace_back(expressions.made(next.value));
      }
    }
  }

  // Rows are contiguous; operands with one element per row have one for all.
  void run(const codegen::KernelCall& call) {
    const bool reduces = std::ranges::any_of(
        kernel_.phases, [](const codegen::Phase& phase) { return !phase.reductions.empty(); });
    if (!reduces) return run_row(call, 0, call.rows * call.columns);
    values_.resize(static_cast<size_t>(call.columns));
    for (int64_t row = 0; row < call.rows; ++row) run_row(call, row, call.columns);
  }

 private:
  void run_row(const codegen::KernelCall& call, int64_t row, int64_t count) {
    std::array<ElementOperand, codegen::kMaxOperands + codegen::kMaxScalars> in;
    const size_t operands = kernel_.operands.size();
    for (size_t i = 0; i < operands; ++i) {
      const auto& [data, stride] = call.operands[i];
      in[i] = {data + row * stride, kernel_.operands[i].type,
               kernel_.operands[i].one_per_row ? 0 : 1};
    }
    for (size_t i = 0; i < scalars_.size(); ++i) {
      in[operands + i] = {&scalars_[i], ElementType::f32, 0};
    }
    const std::span all = std::span(in).first(operands + scalars_.size());
    const CompiledExpr* program = programs_.data();
    for (const codegen::Phase& phase : kernel_.phases) {
      for (const codegen::Store& store : phase.stores) {
        const ElementOperand& to = in[static_cast<size_t>(store.operand)];
        program++->run(all, const_cast<void*>(to.data), to.type, count);
      }
      for (const codegen::Reduction& next : phase.reductions) {
        program++->run(all, values_.data(), ElementType::f32, count);
        scalars_[static_cast<size_t>(next.scalar)] = reduce(next.op);
      }
    }
  }

  [[gnu::target("avx2")]] float reduce(ExprOp op) const {
    constexpr size_t kCount = codegen::kPartialResults;
    std::array<float, kCount> partial;
    partial.fill(op == ExprOp::add ? 0 : -std::numeric_limits<float>::infinity());
    const auto combine = [op](float a, float b) {
      return op == ExprOp::add ? a + b : a < b ? b : a;
    };
    size_t i = 0;
    for (; i + kCount <= values_.size(); i += kCount) {
      for (size_t lane = 0; lane < kCount; ++lane) {
        partial[lane] = combine(partial[lane], values_[i + lane]);
      }
    }
    for (; i < values_.size(); ++i) partial[i % kCount] = combine(partial[i % kCount], values_[i]);
    for (size_t half = kCount / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) {
        partial[lane] = combine(partial[lane], partial[lane + half]);
      }
    }
    return partial[0];
  }

  const codegen::KernelDescription& kernel_;
  std::vector<CompiledExpr> programs_;
  std::vector<float> values_;
  std::array<float, codegen::kMaxScalars> scalars_{};
};

}  // namespace lathe::bench
