// SPDX-License-Identifier: MIT
#include "targets/cpu/row_region.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "targets/cpu/elementwise.h"
#include "targets/cpu/generated_rows.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/quantize_ops.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"

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

// A quantisation before or after the rows; its operands are those of the launch.
struct RowScale {
  bool is_signed = false;
  int scale = -1, zero = -1;

  RowScale(const Instruction& instruction, const Value& values, auto&& place)
      : is_signed(values.type().element == ElementType::i8),
        scale(place(instruction, 1)),
        zero(place(instruction, 2)) {}

  static float number(const LaunchArgs& args, int operand) {
    float value = 0;
    if (operand < 0) return value;
    const TensorView& from = *args.in[static_cast<size_t>(operand)];
    convert(ElementType::f32, &value, from.type, from.data, 1);
    return value;
  }
};

class RowKernel final : public Kernel {
 public:
  // `place` is the launch's operand for an operand of an instruction; -1: absent.
  template <class Place>
  RowKernel(std::span<const Value* const> operands,
            std::span<const Instruction* const> instructions, Place&& place, Isa isa)
      : isa_(isa), generated_(GeneratedRows::make(operands, instructions, isa)) {
    name_ = "cpu.";
    for (const Instruction* instruction : instructions) {
      if (instruction != instructions.front()) name_ += '+';
      name_ += instruction->op().name;
      if (instruction->op() == ops::dequantize_linear) {
        x_ = place(*instruction, 0);
        from_.emplace(*instruction, *instruction->operands()[0], place);
      } else if (instruction->op() == ops::quantize_linear) {
        to_.emplace(*instruction, *instruction->result(), place);
      } else {
        if (!from_) x_ = place(*instruction, 0);
        op_ = &instruction->op();
        if (is_softmax(*op_)) continue;
        centred_ = instruction->op() == ops::layer_normalization;
        epsilon_ = static_cast<float>(attribute<double>(*instruction, "epsilon"));
        gamma_ = place(*instruction, 1);
        if (centred_) beta_ = place(*instruction, 2);
        per_row_ = gives_one(instruction->operands()[1]->type());
      }
    }
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}", to_string(isa_), generated_ != nullptr ? ", generated" : "");
  }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    for (const int i : {x_, gamma_, beta_}) {
      if (i >= 0) reserve_copy(most.in[static_cast<size_t>(i)], workspace);
    }
    reserve_copy(most.out[0], workspace);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    if (args.out[0]->count() == 0) return;
    if (generated_ != nullptr && generated_->run(args.in, *args.out[0], args.pool)) return;
    ScratchLayout workspace = workspace_of(args);
    const auto read = [&](int i) {
      return dense_operand(*args.in[static_cast<size_t>(i)], workspace);
    };
    const TensorView x = read(x_);
    NormalizedRow all;
    if (gamma_ >= 0 && !per_row_) all.gamma = read(gamma_).as<float>();
    if (beta_ >= 0 && !per_row_) all.beta = read(beta_).as<float>();
    all.epsilon = epsilon_;
    all.centred = centred_;
    all.count = x.dims[static_cast<size_t>(x.rank) - 1];
    const DenseResult written(*args.out[0], workspace);
    const int64_t rows = x.count() / all.count;
    parallel_for(
        args.pool, rows, std::max<int64_t>(1, kGrain / all.count),
        [&](int64_t begin, int64_t end) { run(args, all, x, written.view(), begin, end); });
    written.finish();
  }

 private:
  void run(const LaunchArgs& args, const NormalizedRow& all, const TensorView& x,
           const TensorView& y, int64_t begin, int64_t end) const {
    const QuantizeOps& ops = quantize_ops(isa_);
    const int64_t count = all.count;
    const ScratchArray<float> memory(from_ || to_ ? count : 0);
    const ScratchArray<float> factors(per_row_ ? 2 * count : 0);
    const auto number = [&](const std::optional<RowScale>& of, bool zero) {
      return of ? RowScale::number(args, zero ? of->zero : of->scale) : 0;
    };
    const float scale = number(from_, false), zero = number(from_, true);
    const float out_scale = number(to_, false), out_zero = number(to_, true);
    for (int64_t row = begin; row < end; ++row) {
      const float* from = memory.data();
      if (!from_) {
        from = x.as<const float>() + row * count;
      } else if (from_->is_signed) {
        ops.from_i8(x.as<const int8_t>() + row * count, {&scale, &zero, false}, memory.data(),
                    count);
      } else {
        ops.from_u8(x.as<const uint8_t>() + row * count, {&scale, &zero, false}, memory.data(),
                    count);
      }
      float* to = to_ ? memory.data() : y.as<float>() + row * count;
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
      if (!to_) continue;
      const QuantizeScale by{&out_scale, &out_zero, false};
      if (to_->is_signed) {
        ops.to_i8(to, by, y.as<int8_t>() + row * count, count);
      } else {
        ops.to_u8(to, by, y.as<uint8_t>() + row * count, count);
      }
    }
  }

  std::string name_;
  Isa isa_;
  std::unique_ptr<const GeneratedRows> generated_;  // null: none
  int x_ = 0, gamma_ = -1, beta_ = -1;              // operands of the launch
  std::optional<RowScale> from_, to_;
  const Op* op_ = nullptr;  // of the rows
  bool centred_ = false;
  bool per_row_ = false;  // gamma and beta have one element for each row
  float epsilon_ = 0;
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
  return has_last_axis(instruction) ? "" : "the axis is not the last";
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
  const std::array<const Instruction*, 1> alone{&instruction};
  const auto place = [](const Instruction& own, size_t i) {
    return has_operand(own, i) ? static_cast<int>(i) : -1;
  };
  const std::vector<const Value*> operands(instruction.operands().begin(),
                                           instruction.operands().end());
  return {std::make_unique<RowKernel>(operands, alone, place, isa), ""};
}

std::string why_no_rows(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (is_softmax(op)) return why_no_softmax(instruction, Isa::avx2);
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
  const Value* value = nullptr;
  bool has_rows = false;
  for (const auto& next : body.instructions()) {
    const bool quantises = next->op() == ops::quantize_linear;
    const bool starts = next->op() == ops::dequantize_linear;
    if (value != nullptr && (next->operands()[0] != value || value->uses().size() != 1)) {
      return "its instructions do not form a chain";
    }
    if (starts || quantises) {
      if (starts ? value != nullptr : !has_rows) return "its quantisations do not enclose it";
      if (value != nullptr && value->definition()->op() == ops::quantize_linear) {
        return "it quantises twice";
      }
      std::string reason = why_not_fused(*next);
      if (!reason.empty()) return reason;
    } else {
      if (has_rows) return "it computes rows twice";
      std::string reason = why_no_rows(*next);
      if (!reason.empty()) return reason;
      has_rows = true;
    }
    value = next->result();
  }
  return has_rows && body.results().size() == 1 && body.results()[0] == value
             ? ""
             : "its last instruction is not its result";
}

std::unique_ptr<const Kernel> make_row_region(const Instruction& region, Isa isa) {
  const Module& body = *region.bodies()[0];
  std::vector<const Value*> operands;
  for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
  std::vector<const Instruction*> instructions;
  for (const auto& instruction : body.instructions()) instructions.push_back(instruction.get());
  const auto place = [](const Instruction& instruction, size_t i) {
    return has_operand(instruction, i) ? instruction.operands()[i]->index() : -1;
  };
  return std::make_unique<RowKernel>(operands, instructions, place, isa);
}

const KernelEntry kSoftmax{ops::softmax, why_no_softmax, make_rows};
const KernelEntry kLogSoftmax{ops::log_softmax, why_no_softmax, make_rows};

}  // namespace lathe::cpu
