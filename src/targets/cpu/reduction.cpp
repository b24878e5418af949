// SPDX-License-Identifier: MIT
// Reductions of f32 over any axes of any strides.
#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/interpret.h"
#include "ops/support/reduce.h"
#include "ops/support/reduction.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/reduce_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements
constexpr int64_t kBlock = 64;     // results that are finished together

// The fold of the vector loops that combines these terms.
std::optional<Fold> fold_of(const Reduction& reduction) {
  const Expr x = Expr::argument(0, ExprType::f64);
  const Expr term = reduction.term(x);
  const auto of_x = [&](const Expr& input) { return input.id() == x.id(); };
  const bool plain = of_x(term);
  if (reduction.combine == ExprOp::max && plain) return Fold::max;
  if (reduction.combine == ExprOp::min && plain) return Fold::min;
  if (reduction.combine != ExprOp::add) return std::nullopt;
  if (plain) return Fold::sum;
  if (!std::ranges::all_of(term.inputs(), of_x)) return std::nullopt;
  if (term.op() == ExprOp::abs) return Fold::sum_abs;
  return term.op() == ExprOp::mul ? std::optional(Fold::sum_square) : std::nullopt;
}

CompiledExpr finish_of(const Reduction& reduction) {
  return CompiledExpr(
      reduction.finish(Expr::argument(0, ExprType::f64), Expr::argument(1, ExprType::f64)));
}

// The kept axes: sizes, and strides of x and the result.
struct Kept {
  struct Axis {
    int64_t extent;
    int64_t from;
    int64_t to;
  };
  SmallVector<Axis> axes;
  int64_t count = 1;

  // Calls f(offset in x, offset in the result) for positions [begin, end).
  template <class F>
  void each(int64_t begin, int64_t end, F&& f) const {
    for (int64_t flat = begin; flat < end; ++flat) {
      int64_t from = 0, to = 0, rest = flat;
      for (size_t i = axes.size(); i-- > 0;) {
        const Axis& axis = axes[i];
        const int64_t index = rest % axis.extent;
        rest /= axis.extent;
        from += index * axis.from;
        to += index * axis.to;
      }
      f(from, to);
    }
  }
};

// Calls f(offset) for all positions of loops.
template <class F>
void each_offset(const SmallVector<ReduceLoops::Loop>& loops, size_t level, int64_t offset, F& f) {
  if (level == loops.size()) return f(offset);
  for (int64_t i = 0; i < loops[level].extent; ++i) {
    each_offset(loops, level + 1, offset + i * loops[level].stride, f);
  }
}

class Reduction final : public Kernel {
 public:
  Reduction(const Instruction& instruction, Isa isa)
      : attributes_(InstructionReader(instruction)),
        origin_(instruction),
        name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        fold_(*fold_of(*find_reduction(instruction.op()))),
        finish_(finish_of(*find_reduction(instruction.op()))) {}
  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(const LaunchArgs& args) const override {
    LaunchViews c(args);
    const TensorView& x = c.in(0);
    const ReduceLoops loops = reduce_loops(attributes_, origin_, c, x);
    const TensorView y = with_reduced_axes(c.out(0, reduced_dims(attributes_, loops)), loops);
    if (y.count() == 0) return;
    Kept kept;
    Kept::Axis columns{0, 1, 1};
    for (size_t axis = 0; axis < static_cast<size_t>(y.rank); ++axis) {
      const Kept::Axis own{y.dims[axis], loops.kept.strides[axis], y.strides[axis]};
      if (own.extent == 1) continue;
      // Rows are folded elementwise along a kept axis that is contiguous in x.
      if (own.from == 1 && loops.count > 1 && columns.extent == 0) {
        columns = own;
        continue;
      }
      kept.axes.push_back(own);
      kept.count *= own.extent;
    }
    if (columns.extent > 0) return fold_columns(c, loops, kept, columns, y);
    fold_rows(c, loops, kept, y);
  }

 private:
  // Results of groups of `folded` elements, rounded to f32.
  void finish(std::span<double> values, int64_t folded) const {
    if (finish_.steps() == 0) return;
    const auto n = static_cast<double>(folded);
    finish_.run({{{values.data(), ElementType::f64}, {&n, ElementType::f64, 0}}}, values.data(),
                ElementType::f64, static_cast<int64_t>(values.size()));
  }

  void fold_rows(const OperandViews& c, const ReduceLoops& loops, const Kept& kept,
                 const TensorView& y) const {
    SmallVector<ReduceLoops::Loop> outer;
    ReduceLoops::Loop row{loops.count == 0 ? 0 : 1, 1};
    for (const ReduceLoops::Loop& loop : loops.reduced) {
      if (loop.stride == 1) {
        row = loop;
      } else {
        outer.push_back(loop);
      }
    }
    const auto* x = c.in(0).as<const float>();
    const ReduceOps& ops = reduce_ops(isa_);
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, loops.count));
    parallel_for(c.pool, kept.count, grain, [&](int64_t begin, int64_t end) {
      std::array<double, kBlock> values;
      std::array<int64_t, kBlock> places;
      size_t held = 0;
      const auto store = [&] {
        finish(std::span(values).first(held), loops.count);
        for (size_t i = 0; i < held; ++i) y.as<float>()[places[i]] = static_cast<float>(values[i]);
        held = 0;
      };
      kept.each(begin, end, [&](int64_t from, int64_t to) {
        double value = fold_start(fold_);
        auto add = [&](int64_t offset) {
          value = folded(fold_, value, ops.row(fold_, x + offset, row.extent));
        };
        if (loops.count > 0) each_offset(outer, 0, from, add);
        values[held] = value;
        places[held++] = to;
        if (held == kBlock) store();
      });
      store();
    });
  }

  void fold_columns(const OperandViews& c, const ReduceLoops& loops, const Kept& kept,
                    const Kept::Axis& columns, const TensorView& y) const {
    const int64_t blocks = (columns.extent + kBlock - 1) / kBlock;
    const auto* x = c.in(0).as<const float>();
    const ReduceOps& ops = reduce_ops(isa_);
    const int64_t work = std::max<int64_t>(1, loops.count * std::min(kBlock, columns.extent));
    parallel_for(c.pool, kept.count * blocks, std::max<int64_t>(1, kGrain / work),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t first = i % blocks * kBlock;
                     const int64_t count = std::min(kBlock, columns.extent - first);
                     kept.each(i / blocks, i / blocks + 1, [&](int64_t from, int64_t to) {
                       std::array<double, kBlock> values;
                       values.fill(fold_start(fold_));
                       auto add = [&](int64_t offset) {
                         ops.columns(fold_, x + offset, values.data(), count);
                       };
                       each_offset(loops.reduced, 0, from + first, add);
                       finish(std::span(values).first(static_cast<size_t>(count)), loops.count);
                       float* out = y.as<float>() + to + first * columns.to;
                       for (int64_t k = 0; k < count; ++k) {
                         out[k * columns.to] = static_cast<float>(values[static_cast<size_t>(k)]);
                       }
                     });
                   }
                 });
  }

  ReduceAttributes attributes_;
  OpOrigin origin_;
  std::string name_;
  Isa isa_;
  Fold fold_;
  CompiledExpr finish_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const ElementType element = element_of(instruction, 0);
  return element == ElementType::f32 ? "" : fmt::format("{}, supported: f32", to_string(element));
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<Reduction>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kReduceL1{ops::reduce_l1, why_not, make};
const KernelEntry kReduceL2{ops::reduce_l2, why_not, make};
const KernelEntry kReduceLogSum{ops::reduce_log_sum, why_not, make};
const KernelEntry kReduceMax{ops::reduce_max, why_not, make};
const KernelEntry kReduceMean{ops::reduce_mean, why_not, make};
const KernelEntry kReduceMin{ops::reduce_min, why_not, make};
const KernelEntry kReduceSum{ops::reduce_sum, why_not, make};
const KernelEntry kReduceSumSquare{ops::reduce_sum_square, why_not, make};

}  // namespace lathe::cpu
