// SPDX-License-Identifier: MIT
// Elementwise instructions as steps over the registers of one chunk of elements.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/interpret.h"
#include "ops/interpret/access.h"
#include "plan/kernel.h"
#include "targets/cpu/activation_of.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

class ElementwiseProgram {
 public:
  static constexpr size_t kMaxOperands = 16;
  static constexpr size_t kMaxLoads = 2 * kMaxOperands;  // an operand may be read as both
  static constexpr size_t kMaxSteps = 32;

  // A region's operand as a register. `bytes`: read by dequantisations, in place where possible,
  // else as f32.
  struct Load {
    int operand = 0;
    bool bytes = false;
  };
  // Scale and zero point of every step.
  struct Parameters {
    std::array<std::pair<float, float>, kMaxSteps> of;
  };

  ElementwiseProgram(std::span<const Value* const> operands,
                     std::span<const Instruction* const> instructions, Isa isa);

  const std::vector<Load>& loads() const { return loads_; }
  ElementType out_type() const { return out_type_; }
  bool result_is_bytes() const { return registers_.back().bytes; }
  // Memory per element of a chunk, for all registers. The chunk needs kPadding more.
  int64_t bytes() const { return bytes_; }
  // Loads of a scalar may write a whole vector.
  static constexpr int64_t kPadding = 64;

  // `view(i)`: operand i, a scale or zero point.
  template <class View>
  Parameters parameters_of(View&& view) const {
    Parameters out;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Quantisation& own = steps_[i].quantisation;
      if (own.kind == Quantisation::Kind::none) continue;
      out.of[i] = {own.scale < 0 ? 0 : number_of(view(own.scale)),
                   own.zero < 0 ? 0 : number_of(view(own.zero))};
    }
    return out;
  }
  // The operands that are scales and zero points.
  std::vector<int> parameter_operands() const;

  // Elements [first, first + count) of the result, the last of `all`; the loads precede it.
  // `memory`: bytes() · chunk + kPadding.
  void run(const interpret::Layout& layout, std::span<const interpret::Access> all,
           const Parameters& parameters, int64_t first, int64_t count, int64_t chunk,
           std::byte* memory) const;

 private:
  // The memory of one value of a chunk.
  struct Register {
    ExprType type = ExprType::f32;
    bool bytes = false;  // quantised: u8 or i8, not `type`
  };
  struct Quantisation {
    enum class Kind : uint8_t { none, quantise, dequantise } kind = Kind::none;
    bool is_signed = false;
    int scale = -1, zero = -1;  // operands of the launch; -1: absent
  };
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
    Quantisation quantisation;
    float alpha = 1;  // of swiglu
  };

  static float number_of(const TensorView& view);
  void add_loads(std::span<const Value* const> operands, const Instruction& instruction);
  Step make_step(std::span<const Value* const> operands, const Instruction& instruction) const;
  void quantise(const Quantisation& step, std::pair<float, float> parameters, const std::byte* x,
                bool is_float, std::byte* y, int64_t count) const;
  void apply(const Step& step, const std::byte* const* registers, std::byte* to,
             int64_t count) const;

  Isa isa_;
  interpret::Converter converter_;
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  std::vector<Register> registers_;  // of loads, then of results
  std::vector<int64_t> offsets_;     // of registers, times elements of a chunk
  int64_t wide_ = 0;                 // likewise, of a quantised result in its register's type
  int64_t bytes_ = 0;
  ElementType out_type_ = ElementType::f32;
};

}  // namespace lathe::cpu
