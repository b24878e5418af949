// SPDX-License-Identifier: MIT
// An anchor (GEMM, convolution) with the elementwise instructions that follow it, printed into its
// kernel as an epilogue; a product also with the normalisation of its rows before it, and with a
// twin: a product of the same rows, whose value the epilogue reads.
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
  const Instruction* norm() const { return norm_; }  // null: none
  const Instruction* twin() const { return twin_; }  // null: none
  // Operand i of the anchor among the launch's, of the normalisation where that is before it; -1:
  // absent.
  int operand(size_t i) const { return i < places_.size() ? places_[i] : -1; }
  // Operands of the normalisation and of the twin that are no products' rows, likewise.
  int norm_operand(size_t i) const { return place_of(norm_, i); }
  int twin_operand(size_t i) const { return place_of(twin_, i); }
  // Operands of the launch that the epilogue reads, in the order of its sides.
  const std::vector<int>& sides() const { return sides_; }
  const Type& type() const { return *type_; }  // of the result
  const Type& side_type(int side) const;
  // The instructions after the anchor.
  std::vector<const Instruction*> chain() const;
  // The side that an instruction of two operands combines with the chain's value; -1: none.
  int side_of(const Instruction& inner) const;
  std::string label() const;  // "conv+relu"

  // `v` is the sum, `t` the twin's; sides are read by `place_of`, or as SIDE_VALUE states. `first`
  // prints what precedes the instructions.
  std::string epilogue_text(std::string_view sum_type, const std::string& first) const;
  // A kernel's text with its epilogue in place.
  static std::string kernel_with(std::string_view file, const std::string& epilogue);
  // Reads another operand of the launch in the epilogue; returns the index of its side.
  size_t add_side(int operand);

 private:
  bool is_step(const Instruction& inner) const {
    return &inner != anchor_ && &inner != norm_ && &inner != twin_;
  }
  static int place_of(const Instruction* inner, size_t i) {
    return inner != nullptr && i < inner->operands().size() && inner->operands()[i] != nullptr
               ? inner->operands()[i]->index()
               : -1;
  }

  const Instruction* anchor_;
  const Instruction* norm_ = nullptr;
  const Instruction* twin_ = nullptr;
  const Module* body_ = nullptr;
  const Instruction* whole_;
  const Type* type_;
  std::vector<int> places_;
  std::vector<int> sides_;
};

// Reason why `next`, which reads the value as operand `operand`, is not printed into the epilogue
// of such an anchor; or why the anchor's kernel does not compute it, its twin (kTwin).
std::string why_no_epilogue(const Instruction& anchor, const Instruction& next, int operand);
// Reason why a region is not an anchor with an epilogue.
std::string why_no_anchored_region(const Instruction& region);
bool is_anchor(const Op& op);
std::string why_no_gemm(const Instruction& instruction);
std::string why_no_conv(const Instruction& instruction);
std::string why_no_n_bits(const Instruction& instruction);
std::unique_ptr<const Kernel> make_gemm(const GpuDevice& device, const Instruction& instruction,
                                        Constants constants);
std::unique_ptr<const Kernel> make_conv(const GpuDevice& device, const Instruction& instruction,
                                        Constants constants);
std::unique_ptr<const Kernel> make_n_bits(const GpuDevice& device, const Instruction& instruction,
                                          Constants constants);
KernelChoice make_anchored(const GpuDevice& device, const Instruction& instruction,
                           Constants constants);

}  // namespace lathe::gpu
