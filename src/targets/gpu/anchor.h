// SPDX-License-Identifier: MIT
// An anchor (GEMM, convolution) with the elementwise instructions that follow it, printed into its
// kernel as an epilogue.
#pragma once

#include <string>
#include <vector>

#include "targets/gpu/kernel.h"

namespace lathe::gpu {

inline constexpr size_t kMaxSides = 12;

// An instruction alone, or the region that it begins.
class Anchor {
 public:
  explicit Anchor(const Instruction& instruction);
  const Instruction& anchor() const { return *anchor_; }
  // Operand i of the anchor among the launch's; -1: absent.
  int operand(size_t i) const { return i < places_.size() ? places_[i] : -1; }
  // Operands of the launch that the epilogue reads, in the order of its sides.
  const std::vector<int>& sides() const { return sides_; }
  const Type& type() const { return *type_; }  // of the result
  const Type& side_type(int side) const;
  // The instructions after the anchor.
  std::vector<const Instruction*> chain() const;
  // The side that an instruction of two operands combines with the chain's value; -1: none.
  int side_of(const Instruction& inner) const;
  std::string label() const;  // "conv+relu"

  // `v` is the sum; sides are read by `place_of`. `first` prints what precedes the instructions.
  std::string epilogue_text(std::string_view sum_type, const std::string& first) const;
  // Reads another operand of the launch in the epilogue; returns the index of its side.
  size_t add_side(int operand);

 private:
  const Instruction* anchor_;
  const Module* body_ = nullptr;
  const Instruction* whole_;
  const Type* type_;
  std::vector<int> places_;
  std::vector<int> sides_;
};

// Reason why `next`, which reads the value as operand `operand`, is not printed into the epilogue
// of such an anchor.
std::string why_no_epilogue(const Instruction& anchor, const Instruction& next, int operand);
// Reason why a region is not an anchor with an epilogue.
std::string why_no_anchored_region(const Instruction& region);
bool is_anchor(const Op& op);
std::string why_no_gemm(const Instruction& instruction);
std::string why_no_conv(const Instruction& instruction);
KernelChoice make_anchored(const GpuDevice& device, const Instruction& instruction,
                           Constants constants);

}  // namespace lathe::gpu
