// SPDX-License-Identifier: MIT
#include "targets/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/interpret.h"
#include "ops/interpret/access.h"
#include "ops/interpret/kernels.h"
#include "passes/fuse_regions.h"
#include "targets/cpu/activation_of.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"
#include "targets/region_form.h"

namespace lathe::cpu {
namespace {

using interpret::Access;

constexpr int64_t kMaxChunk = 2048;         // elements, if every operand is contiguous
constexpr int64_t kChunkBytes = 24 * 1024;  // of all registers
constexpr size_t kMaxOperands = 16;

bool is_f32(const Instruction& instruction) {
  return instruction.result()->type().element == ElementType::f32 &&
         std::ranges::all_of(instruction.operands(), [](const Value* operand) {
           return operand->type().element == ElementType::f32;
         });
}

// One instruction on the registers of a chunk.
struct Step {
  std::array<int, kMaxOperands> inputs{};  // registers
  size_t count = 0;
  int output = 0;
  // One of these.
  std::optional<ActivationCall> activation;
  void (*binary)(const float*, const float*, float*, int64_t) = nullptr;
  bool is_swiglu = false;
  std::optional<CompiledExpr> formula;
  float alpha = 1;  // of swiglu
};

class Elementwise final : public Kernel {
 public:
  Elementwise(std::span<const Value* const> operands,
              std::span<const Instruction* const> instructions, Isa isa)
      : isa_(isa), operands_(operands.size()) {
    std::vector<const Value*> values(operands.begin(), operands.end());
    name_ = "cpu.";
    for (const Value* operand : operands) types_.push_back(register_of(*operand));
    for (const Instruction* instruction : instructions) {
      if (instruction != instructions.front()) name_ += '+';
      name_ += instruction->op().name;
      steps_.push_back(make_step(*instruction));
      Step& step = steps_.back();
      for (const Value* operand : instruction->operands()) {
        step.inputs[step.count++] =
            static_cast<int>(std::ranges::find(values, operand) - values.begin());
      }
      step.output = static_cast<int>(values.size());
      values.push_back(instruction->result());
      types_.push_back(register_of(*instruction->result()));
    }
    for (const ExprType type : types_) {
      offsets_.push_back(bytes_);
      bytes_ += info(interpret::register_type(type)).bits / 8;
    }
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }
  // An element of the result depends on those of the same index.
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView& y = *args.out[0];
    std::array<Access, kMaxOperands + 1> all;
    for (size_t i = 0; i < operands_; ++i) {
      all[i] = interpret::access_to(*args.in[i], y, static_cast<int>(i));
    }
    all[operands_] = {
        .data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides};
    interpret::Layout layout{.rank = y.rank, .dims = y.dims};
    const int64_t count = layout.count();
    if (count == 0) return;
    const auto used = std::span(all).first(operands_ + 1);
    interpret::collapse(layout, used);
    const bool contiguous = std::ranges::all_of(
        used, [](const Access& access) { return access.linear || access.scalar; });
    const int64_t most = contiguous ? kMaxChunk : interpret::kMaxChunk;
    const int64_t chunk =
        std::max(std::min(most, kChunkBytes / bytes_) & -interpret::kLanes, interpret::kLanes);
    constexpr int64_t kGrain = 16384;
    parallel_for(args.pool, count, kGrain, [&](int64_t begin, int64_t end) {
      const ScratchBlock memory(chunk * bytes_ + kPadding);
      for (int64_t first = begin; first < end; first += chunk) {
        run(layout, used, first, std::min(chunk, end - first), chunk,
            static_cast<std::byte*>(memory.data()));
      }
    });
  }

 private:
  // Loads of a scalar may write a whole vector.
  static constexpr int64_t kPadding = 64;

  static ExprType register_of(const Value& value) { return compute_type(value.type().element); }

  Step make_step(const Instruction& instruction) const {
    Step step;
    const RowOps& rows = row_ops(isa_);
    const Op& op = instruction.op();
    if (is_f32(instruction)) step.activation = activation_of(instruction);
    if (step.activation) return step;
    if (is_f32(instruction) && instruction.operands().size() == 2) {
      step.binary = op == ops::add   ? rows.add
                    : op == ops::sub ? rows.sub
                    : op == ops::mul ? rows.mul
                                     : nullptr;
      step.is_swiglu = op == ops::swiglu;
      if (step.is_swiglu) {
        step.alpha = static_cast<float>(attribute<double>(instruction, "alpha"));
      }
      if (step.binary != nullptr || step.is_swiglu) return step;
    }
    step.formula.emplace(formula_of(instruction));
    return step;
  }

  void run(const interpret::Layout& layout, std::span<const Access> all, int64_t first,
           int64_t count, int64_t chunk, std::byte* memory) const {
    std::array<const std::byte*, kMaxOperands + kMaxSteps> registers;
    const auto place = [&](size_t i) { return memory + offsets_[i] * chunk; };
    for (size_t i = 0; i < operands_; ++i) {
      registers[i] = interpret::load(layout, all[i], types_[i], first, count, place(i), converter_);
    }
    const Access& out = all.back();
    const ExprType type = types_.back();
    std::byte* direct =
        out.linear && out.type == interpret::register_type(type) && type != ExprType::boolean
            ? out.data + first * (info(out.type).bits / 8)
            : nullptr;
    for (const Step& step : steps_) {
      const auto at = static_cast<size_t>(step.output);
      std::byte* to = &step == &steps_.back() && direct != nullptr ? direct : place(at);
      apply(step, registers.data(), to, count);
      registers[at] = to;
    }
    if (direct == nullptr) {
      interpret::store(layout, out, type, first, count, registers[types_.size() - 1], converter_);
    }
  }

  void apply(const Step& step, const std::byte* const* registers, std::byte* to,
             int64_t count) const {
    const auto floats = [&](size_t i) {
      return reinterpret_cast<const float*>(registers[step.inputs[i]]);
    };
    auto* y = reinterpret_cast<float*>(to);
    if (step.activation) {
      const ActivationCall& call = *step.activation;
      vector_ops(isa_).activate(call.activation, call.a, call.b, floats(0), y, count);
    } else if (step.binary != nullptr) {
      step.binary(floats(0), floats(1), y, count);
    } else if (step.is_swiglu) {
      row_ops(isa_).swiglu(step.alpha, floats(0), floats(1), y, count);
    } else {
      std::array<ElementOperand, kMaxOperands> operands;
      for (size_t i = 0; i < step.count; ++i) {
        const auto input = static_cast<size_t>(step.inputs[i]);
        operands[i] = {registers[input], interpret::register_type(types_[input]), 1};
      }
      const auto output = static_cast<size_t>(step.output);
      step.formula->run(std::span(operands).first(step.count), to,
                        interpret::register_type(types_[output]), count);
    }
  }

 public:
  static constexpr size_t kMaxSteps = 32;

 private:
  static void convert_with(const void* ops, ElementType to, void* dst, ElementType from,
                           const void* src, int64_t count) {
    convert_elements(*static_cast<const VectorOps*>(ops), to, dst, from, src, count);
  }

  std::string name_;
  Isa isa_;
  interpret::Converter converter_{convert_with, &vector_ops(isa_)};
  size_t operands_;
  std::vector<Step> steps_;
  std::vector<ExprType> types_;   // of registers: operands, then results
  std::vector<int64_t> offsets_;  // of registers, times elements of a chunk
  int64_t bytes_ = 0;             // of all registers, per element
};

}  // namespace

std::string why_no_elementwise(const Instruction& instruction) {
  if (!is_elementwise(instruction.op())) return "it is not elementwise";
  if (instruction.operands().size() > kMaxOperands) return "it has too many operands";
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) return "an operand is absent";
    if (!has_compute_type(operand->type().element)) {
      return fmt::format("an operand is {}", to_string(operand->type().element));
    }
  }
  const ElementType result = instruction.result()->type().element;
  return has_compute_type(result) ? "" : fmt::format("the result is {}", to_string(result));
}

std::string why_not_fused(const Instruction& instruction) {
  const std::string reason = why_no_elementwise(instruction);
  return reason.empty() ? why_not_in_register(instruction) : reason;
}

std::string why_no_elementwise_region(const Instruction& region) {
  return why_no_elementwise_body(region, {kMaxOperands, Elementwise::kMaxSteps}, why_not_fused);
}

std::unique_ptr<const Kernel> make_elementwise_region(const Instruction& region, Isa isa) {
  const Module& body = *region.bodies()[0];
  std::vector<const Value*> operands;
  for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
  std::vector<const Instruction*> instructions;
  for (const auto& instruction : body.instructions()) instructions.push_back(instruction.get());
  return std::make_unique<Elementwise>(operands, instructions, isa);
}

namespace {

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return why_no_elementwise(instruction);
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  const std::vector<const Value*> operands(instruction.operands().begin(),
                                           instruction.operands().end());
  const std::array<const Instruction*, 1> alone{&instruction};
  return {std::make_unique<Elementwise>(operands, alone, isa), ""};
}

}  // namespace

const KernelEntry kElementwise{ops::identity, why_not, make};

}  // namespace lathe::cpu
