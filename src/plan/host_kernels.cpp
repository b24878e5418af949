// SPDX-License-Identifier: MIT
// Kernels of the executor's own instructions on the host: dims, copies, updates of states.
#include <algorithm>
#include <cstring>

#include "ops/support/state.h"
#include "plan/kernel.h"

namespace lathe {
namespace {

class DimsKernel final : public Kernel {
 public:
  explicit DimsKernel(std::vector<int32_t> dims) : dims_(std::move(dims)) {}
  std::string_view name() const override { return "host.dims"; }
  void launch(const LaunchArgs& args) const override {
    const TensorView& to = *args.out[0];
    for (size_t i = 0; i < dims_.size(); ++i) {
      to.as<int64_t>()[static_cast<int64_t>(i) * to.strides[0]] = args.dims[dims_[i]];
    }
  }

 private:
  std::vector<int32_t> dims_;
};

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(size_t operand, std::string_view name) : operand_(operand), name_(name) {}
  std::string_view name() const override { return name_; }
  void launch(const LaunchArgs& args) const override {
    copy_elements(*args.in[operand_], *args.out[0]);
  }

 private:
  size_t operand_;
  std::string_view name_;
};

void fill_zero(const TensorView& view) {
  const int64_t element = info(view.type).bits / 8;
  for_each_index(view.extents(), [&](std::span<const int64_t> index) {
    std::memset(view.as<char>() + offset_of(view, index) * element, 0,
                static_cast<size_t>(element));
  });
}

// Operands: version, x and, if lengths differ, i64[sequences] of committed lengths along axis 0.
class AppendKernel final : public Kernel {
 public:
  explicit AppendKernel(int axis) : axis_(static_cast<size_t>(axis)) {}
  std::string_view name() const override { return "host.state_append"; }
  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[1];
    const TensorView& next = *args.out[0];
    const int64_t before = next.dims[axis_] - x.dims[axis_];
    if (args.has(2)) {
      append_ragged(x, next, before, *args.in[2]);
      return;
    }
    TensorView target = x;
    target.strides = next.strides;
    target.data = address(next, 0, before);
    copy_elements(x, target);
  }

 private:
  // Position `at` of the growing axis of sequence `row`.
  void* address(const TensorView& view, int64_t row, int64_t at) const {
    const int64_t element = info(view.type).bits / 8;
    return view.as<char>() + (row * view.strides[0] + at * view.strides[axis_]) * element;
  }

  // Stores each sequence's part at its own length, and zeros up to the longest.
  void append_ragged(const TensorView& x, const TensorView& next, int64_t before,
                     const TensorView& lengths) const {
    const auto* length = lengths.as<const int64_t>();
    const int64_t longest = *std::max_element(length, length + lengths.dims[0]);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      const int64_t at = length[row] + (before - longest);
      TensorView from = x;
      from.dims[0] = 1;
      from.data = static_cast<char*>(x.data) + row * x.strides[0] * info(x.type).bits / 8;
      TensorView target = from;
      target.strides = next.strides;
      target.data = address(next, row, at);
      copy_elements(from, target);
      TensorView gap = target;
      gap.dims[axis_] = before - at;
      gap.data = address(next, row, at + x.dims[axis_]);
      fill_zero(gap);
    }
  }

  size_t axis_;
};

}  // namespace

std::unique_ptr<const Kernel> make_dims_kernel(std::vector<int32_t> dims) {
  return std::make_unique<DimsKernel>(std::move(dims));
}

std::unique_ptr<const Kernel> make_copy_kernel() {
  return std::make_unique<CopyKernel>(0, "host.copy");
}

std::unique_ptr<const Kernel> make_state_kernel(const Instruction& instruction) {
  if (instruction.op().structural == Structural::state_replace) {
    return std::make_unique<CopyKernel>(1, "host.state_replace");
  }
  return std::make_unique<AppendKernel>(state_of(instruction).axis);
}

}  // namespace lathe
