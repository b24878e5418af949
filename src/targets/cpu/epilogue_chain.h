// SPDX-License-Identifier: MIT
// The instructions that follow an anchor (GEMM, convolution) in a region, as its epilogue: a chain
// of steps in registers, else any elementwise ones as generated code.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/tile_epilogue.h"

namespace lathe::cpu {

// Elements of the anchor's result between rows, columns and images of the epilogue.
struct EpilogueStrides {
  int64_t row = 0;
  int64_t column = 1;
  int64_t image = 0;
};

class EpilogueChain {
 public:
  static constexpr size_t kMaxSteps = 12;

  // Reason why the op anchors no region; empty if it does.
  static std::string why_no_anchor(const Instruction& anchor);
  // Reason why `next`, which reads a value of the region as `operand`, is not part of the anchor's
  // epilogue; empty if it is.
  static std::string why_not(const Instruction& anchor, const Instruction& next, int operand);
  // Reason why a region is not an anchor with an epilogue.
  static std::string why_not(const Instruction& region);

  // The anchor is the body's first instruction; requires an empty why_not(region).
  EpilogueChain(const Instruction& region, Constants constants, Isa isa);

  static const Instruction& anchor_of(const Instruction& region);
  // With which a region begins, before its anchor: a `mul` of operand 0 and factors, the mean of
  // the positions of operand 0, or a cast of operand 0 from bf16; null: none.
  static const Instruction* prologue_of(const Instruction& region);
  // Reason why the anchor does not compute the instruction that it reads; empty if it does.
  static std::string why_no_prologue(const Instruction& prologue, const Instruction& anchor);
  // The region's operand that holds the factors of a `mul`; -1: none.
  static int factor_operand(const Instruction& region);
  // Operand i of the anchor is operand anchor_operands()[i] of the region; -1: absent; the number
  // of the region's operands: the mean with which it begins.
  static std::vector<int> anchor_operands(const Instruction& region);

  // Room for operands of the result's shape whose strides are not `result`'s.
  void reserve(const LaunchArgs& most, const TensorView& result, ScratchLayout& workspace) const;
  struct Steps {
    std::array<EpilogueStep, kMaxSteps> steps;
    std::array<int64_t, kMaxSteps> images;
    size_t count = 0;
    std::optional<float> out_zero;  // in place of the anchor's own
    const TileCode* code = nullptr;
    void add(const EpilogueStep& step, int64_t image = 0) {
      steps[count] = step;
      images[count++] = image;
    }
  };
  // Appends the steps for a result that the anchor writes with these strides.
  void append(const LaunchArgs& args, const TensorView& result, const EpilogueStrides& strides,
              ScratchLayout& workspace, Steps& out) const;

  bool reads(int operand) const;                     // of the region
  const std::string& text() const { return text_; }  // "+add+relu"
  bool is_generated() const { return code_ != nullptr && code_->is_generated(); }

 private:
  enum class Shape : uint8_t { none, scalar, columns, rows, full };
  struct Part {
    EpilogueStep step;
    Shape shape = Shape::none;
    int operand = -1;      // of the region
    int column_axis = -1;  // of the operand
  };
  void add_steps(const Instruction& region, Constants constants);
  void add_code(const Instruction& region, Isa isa);
  void add_side(Part& part, const Value& side, const Instruction& anchor) const;
  void add_requantisation(const Module& body, const Instruction& anchor, Constants constants);

  std::vector<Part> parts_;
  std::optional<float> out_zero_;
  std::unique_ptr<const TileEpilogue> code_;  // null: the parts are steps
  std::string text_;
};

}  // namespace lathe::cpu
