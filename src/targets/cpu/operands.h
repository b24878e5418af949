// SPDX-License-Identifier: MIT
// Shared by the target's kernels: attributes and constants of an instruction, dense operands and
// results in the workspace of a launch.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/op_origin.h"
#include "ops/operand_views.h"
#include "plan/kernel.h"
#include "targets/cpu/kernels/common/scratch.h"

namespace lathe::cpu {

template <class T>
T attribute(const Instruction& instruction, std::string_view name) {
  const Attribute* found = find_attribute(instruction.attributes(), name);
  return found == nullptr ? T{} : std::get<T>(*found);
}

inline bool has_operand(const Instruction& instruction, size_t i) {
  return i < instruction.operands().size() && instruction.operands()[i] != nullptr;
}
ElementType element_of(const Instruction& instruction, size_t i);
bool is_single(const Instruction& instruction, int operand);  // of one element
inline const Tensor* constant_at(Constants constants, size_t i) {
  return i < constants.size() ? constants[i] : nullptr;
}
std::string megabytes(size_t bytes);  // "12.3 MiB"

std::vector<float> floats_of(const Tensor& tensor);  // from any numeric type

// A launch takes from its workspace what workspace_bytes() reserved, in the same order or less.
inline ScratchLayout workspace_of(const LaunchArgs& args) {
  return ScratchLayout(static_cast<std::byte*>(args.workspace));
}
// View with shape [n, c, spatial…] over channels-last memory.
TensorView channels_last_view(const TensorView& like, void* data);
// True if the view has the strides of channels_last_view(), and not also those of a dense one.
bool is_channels_last(const TensorView& view);
// The shape with row-major strides, without data.
TensorView dense_strides_of(const TensorView& view);
bool same_strides(const TensorView& a, const TensorView& b);
// The strides with which a launch passes once over the memory of an operand and of the result `y`:
// those of y if its elements fill memory in any order of axes, else row-major.
TensorView common_order(const TensorView& y);
// Room for a dense copy; none if the view is dense or null.
void reserve_copy(const TensorView* view, ScratchLayout& workspace);
// The view itself if it is dense, else a dense copy.
TensorView dense_operand(const TensorView& view, ScratchLayout& workspace);

// A launch for code that kernels share with the reference.
class LaunchViews final : public OperandViews {
 public:
  explicit LaunchViews(const LaunchArgs& args) : host_(args.host) {
    inputs_ = args.in;
    outputs_ = args.out;
    pool = args.pool;
  }
  using OperandViews::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override {
    return host_->result(i, dims);
  }

 private:
  HostMemory* host_;
};

// A result in dense memory: its own, or a part of the workspace that finish() copies to it.
class DenseResult {
 public:
  DenseResult(const TensorView& result, ScratchLayout& workspace);
  const TensorView& view() const { return dense_; }
  void finish() const {
    if (dense_.data != result_.data) copy_elements(dense_, result_);
  }

 private:
  TensorView result_;
  TensorView dense_;
};

// A dense copy of the elements as f32 or i32. reserve_floats() covers integers too.
void reserve_floats(const TensorView& view, ScratchLayout& workspace);
std::span<float> float_elements(const TensorView& view, ScratchLayout& workspace);
std::span<int32_t> int32_elements(const TensorView& view, ScratchLayout& workspace);

// The view itself if it is dense, else a dense copy in `copy`.
const TensorView& dense_view(const TensorView& view, Tensor& copy, TensorView& made);

// Per-thread scratch of one launch, aligned to 64 bytes; grows, never shrinks.
void* scratch(size_t bytes);

}  // namespace lathe::cpu
