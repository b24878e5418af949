// SPDX-License-Identifier: MIT
#include "targets/cpu/row_region.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/interpret/access.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/generated_rows.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/common/chunk_splitter.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/steps.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements

// x - most - log(sum of exp(x - most)); y may be x.
void log_softmax_row(const float* x, float* y, int64_t count) {
  const float most = *std::max_element(x, x + count);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - most);
  const float subtracted = std::log(sum);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - most - subtracted;
}

// True if a factor of the rows has one element for each.
bool gives_one(const Type& type) { return type.rank() == 0 || type.dims->back() == Dim(1); }

bool is_softmax(const Op& op) { return is_any_of(op, {&ops::softmax, &ops::log_softmax}); }

// The element of a factor with one for each row.
float of_row(const TensorView& factor, const TensorView& x, int64_t row) {
  int64_t offset = 0;
  for (int axis = x.rank - 2, own = factor.rank - 2; axis >= 0 && own >= 0; --axis, --own) {
    const int64_t size = x.dims[static_cast<size_t>(axis)];
    const auto a = static_cast<size_t>(own);
    if (factor.dims[a] != 1) offset += row % size * factor.strides[a];
    row /= size;
  }
  return factor.as<const float>()[offset];
}

// The launch's operand for one of the instruction; -1: absent.
int place_of(const Instruction& instruction, size_t i) {
  return has_operand(instruction, i) ? static_cast<int>(i) : -1;
}

// The view with this axis, counted from the end, as its last.
TensorView with_last(TensorView view, int64_t axis) {
  const auto at = view.rank + axis;
  std::rotate(view.dims.begin() + at, view.dims.begin() + at + 1, view.dims.begin() + view.rank);
  std::rotate(view.strides.begin() + at, view.strides.begin() + at + 1,
              view.strides.begin() + view.rank);
  return view;
}

class RowKernel final : public Kernel {
 public:
  RowKernel(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)), isa_(isa), op_(&instruction.op()) {
    const std::array<const Instruction*, 1> alone{&instruction};
    const std::vector<const Value*> operands(instruction.operands().begin(),
                                             instruction.operands().end());
    generated_ = GeneratedRows::make(operands, alone, isa);
    const auto axis = attribute<int64_t>(instruction, "axis");
    axis_ = axis < 0 ? axis : axis - instruction.result()->type().rank();
    if (is_softmax(*op_)) return;
    centred_ = *op_ == ops::layer_normalization;
    epsilon_ = static_cast<float>(attribute<double>(instruction, "epsilon"));
    gamma_ = place_of(instruction, 1);
    if (centred_) beta_ = place_of(instruction, 2);
    per_row_ = gives_one(instruction.operands()[1]->type());
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}", to_string(isa_), generated_ != nullptr ? ", generated" : "");
  }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    for (const int i : {gamma_, beta_}) {
      if (i >= 0) reserve_copy(most.in[static_cast<size_t>(i)], workspace);
    }
    for (const TensorView* view : {most.in[0], static_cast<const TensorView*>(most.out[0])}) {
      const TensorView rows = with_last(*view, axis_);
      reserve_copy(&rows, workspace);
    }
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    if (args.out[0]->count() == 0) return;
    if (*op_ == ops::softmax && axis_ != -1 && run_columns(args)) return;
    const TensorView y = with_last(*args.out[0], axis_);
    if (generated_ != nullptr) {
      // Only softmax has other axes, and no other operands.
      const TensorView rows = with_last(*args.in[0], axis_);
      const std::array<const TensorView*, 1> alone{&rows};
      if (generated_->run(axis_ == -1 ? args.in : alone, y, args.pool)) return;
    }
    ScratchLayout workspace = workspace_of(args);
    const auto read = [&](int i) {
      return dense_operand(*args.in[static_cast<size_t>(i)], workspace);
    };
    const TensorView x = dense_operand(with_last(*args.in[0], axis_), workspace);
    NormalizedRow all;
    if (gamma_ >= 0 && !per_row_) all.gamma = read(gamma_).as<float>();
    if (beta_ >= 0 && !per_row_) all.beta = read(beta_).as<float>();
    all.epsilon = epsilon_;
    all.centred = centred_;
    all.count = x.dims[static_cast<size_t>(x.rank) - 1];
    const DenseResult written(y, workspace);
    const int64_t rows = x.count() / all.count;
    parallel_for(
        args.pool, rows, even_grain(rows, std::max<int64_t>(1, kGrain / all.count)),
        [&](int64_t begin, int64_t end) { run(args, all, x, written.view(), begin, end); });
    written.finish();
  }

 private:
  // Softmax where neighbours in memory are of other columns. False if they are not.
  bool run_columns(const LaunchArgs& args) const {
    using interpret::Access;
    const TensorView x = with_last(*args.in[0], axis_), y = with_last(*args.out[0], axis_);
    const auto last = static_cast<size_t>(y.rank - 1);
    std::array<Access, 2> all;
    for (size_t i = 0; i < 2; ++i) {
      const TensorView& view = i == 0 ? x : y;
      all[i] = {.data = static_cast<std::byte*>(view.data), .strides = view.strides};
    }
    interpret::Layout columns{.rank = y.rank - 1, .dims = y.dims};
    interpret::collapse(columns, all);
    const auto inner = static_cast<size_t>(columns.rank - 1);
    if (columns.rank == 0 || all[0].strides[inner] != 1 || all[1].strides[inner] != 1) return false;
    const int64_t rows = y.dims[last], count = columns.dims[inner];
    constexpr int64_t kColumns = 256;  // of a part
    const int64_t parts = (count + kColumns - 1) / kColumns;
    const int64_t grain = std::max<int64_t>(1, kGrain / (rows * std::min(kColumns, count)));
    parallel_for(args.pool, columns.count() / count * parts, grain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t part = begin; part < end; ++part) {
                     const int64_t first = part % parts * kColumns;
                     std::array<int64_t, 2> offset{first, first};
                     int64_t rest = part / parts;
                     for (size_t axis = inner; axis-- > 0;) {
                       const int64_t index = rest % columns.dims[axis];
                       rest /= columns.dims[axis];
                       for (size_t i = 0; i < 2; ++i) offset[i] += index * all[i].strides[axis];
                     }
                     row_ops(isa_).softmax_columns(x.as<const float>() + offset[0], x.strides[last],
                                                   y.as<float>() + offset[1], y.strides[last], rows,
                                                   std::min(kColumns, count - first));
                   }
                 });
    return true;
  }

  void run(const LaunchArgs& args, const NormalizedRow& all, const TensorView& x,
           const TensorView& y, int64_t begin, int64_t end) const {
    const int64_t count = all.count;
    const ScratchArray<float> factors(per_row_ ? 2 * count : 0);
    for (int64_t row = begin; row < end; ++row) {
      const float* from = x.as<const float>() + row * count;
      float* to = y.as<float>() + row * count;
      if (*op_ == ops::softmax) {
        row_ops(isa_).softmax(from, to, count);
      } else if (*op_ == ops::log_softmax) {
        log_softmax_row(from, to, count);
      } else {
        NormalizedRow own = all;
        own.x = from;
        own.y = to;
        if (per_row_) {
          const auto filled = [&](int i, float* to_fill) {
            const float factor = of_row(*args.in[static_cast<size_t>(i)], x, row);
            return static_cast<const float*>(std::fill_n(to_fill, count, factor) - count);
          };
          own.gamma = filled(gamma_, factors.data());
          if (beta_ >= 0) own.beta = filled(beta_, factors.data() + count);
        }
        row_ops(isa_).normalize(own);
      }
    }
  }

  std::string name_;
  Isa isa_;
  const Op* op_;
  int64_t axis_ = -1;                               // from the end
  std::unique_ptr<const GeneratedRows> generated_;  // null: none
  int gamma_ = -1, beta_ = -1;                      // operands
  bool centred_ = false;
  bool per_row_ = false;  // gamma and beta have one element for each row
  float epsilon_ = 0;
};

class RowRegion final : public Kernel {
 public:
  RowRegion(const Instruction& region, Isa isa) : isa_(isa), region_(region) {
    const Module& body = *region.bodies()[0];
    std::vector<const Value*> operands;
    for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
    std::vector<const Instruction*> instructions;
    name_ = "cpu.";
    for (const auto& instruction : body.instructions()) {
      if (!instructions.empty()) name_ += '+';
      name_ += instruction->op().name;
      instructions.push_back(instruction.get());
    }
    generated_ = GeneratedRows::make(operands, instructions, isa);
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}", to_string(isa_), generated_ != nullptr ? ", generated" : "");
  }
  void launch(const LaunchArgs& args) const override {
    if (args.out[0]->count() == 0) return;
    if (generated_ != nullptr && generated_->run(args.in, *args.out[0], args.pool)) return;
    std::call_once(once_, [&] { steps_ = std::make_unique<const Steps>(region_, isa_); });
    steps_->run(args);
  }

 private:
  std::string name_;
  Isa isa_;
  const Instruction& region_;
  std::unique_ptr<const GeneratedRows> generated_;  // null: none
  mutable std::once_flag once_;
  mutable std::unique_ptr<const Steps> steps_;  // made where generated code does not run
};

bool has_last_axis(const Instruction& instruction) {
  const Type& type = instruction.operands()[0]->type();
  if (!type.is_ranked() || type.rank() == 0) return false;
  const auto axis = attribute<int64_t>(instruction, "axis");
  return axis == -1 || axis == type.rank() - 1;
}

std::string why_no_softmax(const Instruction& instruction, Isa /*isa*/) {
  if (element_of(instruction, 0) != ElementType::f32) {
    return fmt::format("x is {}, supported: f32", to_string(element_of(instruction, 0)));
  }
  const Type& type = instruction.operands()[0]->type();
  return type.is_ranked() && type.rank() > 0 ? "" : "the rank is unknown or 0";
}

// Gamma, and beta if it is present, are f32, either of the row's size or one element for each row.
bool has_row_factors(const Instruction& instruction) {
  if (!has_operand(instruction, 1)) return false;
  const Type& x = instruction.operands()[0]->type();
  const bool per_row = x.rank() > 1 && gives_one(instruction.operands()[1]->type());
  const size_t count = instruction.op() == ops::layer_normalization ? 3 : 2;
  for (size_t i = 1; i < count; ++i) {
    if (!has_operand(instruction, i)) continue;
    const Type& type = instruction.operands()[i]->type();
    if (type.element != ElementType::f32 || !type.is_ranked()) return false;
    if (per_row ? !gives_one(type) : type.rank() != 1 || (*type.dims)[0] != x.dims->back()) {
      return false;
    }
  }
  return true;
}

}  // namespace

KernelChoice make_rows(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<RowKernel>(instruction, isa), ""};
}

std::string why_no_rows(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (is_softmax(op)) {
    const std::string reason = why_no_softmax(instruction, Isa::avx2);
    return reason.empty() && !has_last_axis(instruction) ? "the axis is not the last" : reason;
  }
  if (!is_any_of(op, {&ops::layer_normalization, &ops::rms_normalization})) {
    return "it does not compute rows";
  }
  if (element_of(instruction, 0) != ElementType::f32 ||
      instruction.result()->type().element != ElementType::f32) {
    return "x or the result is not f32";
  }
  const auto& results = instruction.results();
  if (std::any_of(results.begin() + 1, results.end(),
                  [](const Value& result) { return !result.uses().empty(); })) {
    return "it has several results";
  }
  if (!has_last_axis(instruction)) return "the axis is not the last";
  return has_row_factors(instruction) ? "" : "its factors do not have the shape of one row";
}

std::string why_no_row_region(const Instruction& region) {
  const Module& body = *region.bodies()[0];
  const Value* result = body.results().size() == 1 ? body.results()[0] : nullptr;
  const Instruction* rows = nullptr;
  const Instruction* last = nullptr;
  for (const auto& next : body.instructions()) {
    last = next.get();
    if (result == nullptr || last->result()->type().dims != result->type().dims) {
      return "its values have several shapes";
    }
    const std::string reason = why_not_fused(*last);
    if (reason.empty()) continue;
    if (rows != nullptr) return reason;
    std::string why_no = why_no_rows(*last);
    if (!why_no.empty()) return why_no;
    rows = last;
  }
  return rows != nullptr && result == last->result() ? ""
                                                     : "its last instruction is not its result";
}

std::unique_ptr<const Kernel> make_row_region(const Instruction& region, Isa isa) {
  return std::make_unique<RowRegion>(region, isa);
}

const KernelEntry kSoftmax{ops::softmax, why_no_softmax, make_rows};
const KernelEntry kLogSoftmax{ops::log_softmax, why_no_softmax, make_rows};

}  // namespace lathe::cpu
