// SPDX-License-Identifier: MIT
// quantize_linear and dequantize_linear between f32 and 8-bit integers, in the result's memory
// order.
#include "targets/cpu/kernels/elementwise/quantize_ops.h"

#include <algorithm>
#include <optional>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // elements

class LinearQuantization final : public Kernel {
 public:
  LinearQuantization(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        axis_(attribute<int64_t>(instruction, "axis")) {}
  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(const LaunchArgs& args) const override {
    const TensorView& y = *args.out[0];
    if (y.count() == 0) return;
    TensorView to = common_order(y);
    TensorView from = to;
    from.type = args.in[0]->type;
    const bool reads_x = same_strides(*args.in[0], to), writes_y = same_strides(y, to);
    const ScratchBlock copy_of_x(reads_x ? 0 : bytes_for(from.type, from.count()));
    const ScratchBlock copy_of_y(writes_y ? 0 : bytes_for(y.type, y.count()));
    from.data = reads_x ? args.in[0]->data : copy_of_x.data();
    if (!reads_x) copy_elements(*args.in[0], from);
    to.data = writes_y ? y.data : copy_of_y.data();

    const int64_t scales = args.in[1]->count();
    const ScratchArray<float> scale(scales), zero(scales);
    floats(*args.in[1], scale);
    if (args.has(2)) {
      floats(*args.in[2], zero);
    } else {
      std::ranges::fill(zero, 0.0F);
    }
    QuantizeScale by{scale.data(), zero.data(), false};
    if (scales == 1) {
      run(args.pool, from, to, by, to.count(), to.count());
    } else {
      const auto axis = static_cast<size_t>(axis_ < 0 ? axis_ + to.rank : axis_);
      const int64_t extent = to.dims[axis], stride = extent == 1 ? 1 : to.strides[axis];
      by.each = stride == 1;
      run(args.pool, from, to, by, by.each ? extent : stride, by.each ? extent : stride * extent);
    }
    if (!writes_y) copy_elements(to, y);
  }

 private:
  static void floats(const TensorView& view, const ScratchArray<float>& to) {
    const ScratchBlock copy(view.is_dense() ? 0 : bytes_for(view.type, view.count()));
    TensorView dense = view;
    if (!view.is_dense()) {
      dense = dense_strides_of(view);
      dense.data = copy.data();
      copy_elements(view, dense);
    }
    convert(ElementType::f32, to.data(), view.type, dense.data, view.count());
  }

  // Scales change after every `length` elements, and repeat after `period`.
  void run(ThreadPool* pool, const TensorView& x, const TensorView& y, const QuantizeScale& by,
           int64_t length, int64_t period) const {
    parallel_for(pool, y.count(), kGrain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t in_period = begin % period, in_run = begin % length;
        const int64_t count = std::min(end - begin, length - in_run);
        const int64_t at = by.each ? in_run : in_period / length;
        convert_run(x, y, begin, {by.scale + at, by.zero + at, by.each}, count);
        begin += count;
      }
    });
  }

  void convert_run(const TensorView& x, const TensorView& y, int64_t at, const QuantizeScale& by,
                   int64_t count) const {
    const QuantizeOps& ops = quantize_ops(isa_);
    if (y.type == ElementType::u8) {
      ops.to_u8(x.as<const float>() + at, by, y.as<uint8_t>() + at, count);
    } else if (y.type == ElementType::i8) {
      ops.to_i8(x.as<const float>() + at, by, y.as<int8_t>() + at, count);
    } else if (x.type == ElementType::u8) {
      ops.from_u8(x.as<const uint8_t>() + at, by, y.as<float>() + at, count);
    } else {
      ops.from_i8(x.as<const int8_t>() + at, by, y.as<float>() + at, count);
    }
  }

  std::string name_;
  Isa isa_;
  int64_t axis_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const bool quantizes = instruction.op() == ops::quantize_linear;
  const ElementType x = element_of(instruction, 0), y = instruction.result()->type().element;
  const ElementType real = quantizes ? x : y, integer = quantizes ? y : x;
  if (real != ElementType::f32 || (integer != ElementType::u8 && integer != ElementType::i8)) {
    return fmt::format("{} to {}, supported: f32 and u8 or i8", to_string(x), to_string(y));
  }
  if (element_of(instruction, 1) != ElementType::f32) return "the scale is not f32";
  return attribute<int64_t>(instruction, "block_size") == 0 ? "" : "scales are per block";
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<LinearQuantization>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kDequantizeLinear{ops::dequantize_linear, why_not, make};
const KernelEntry kQuantizeLinear{ops::quantize_linear, why_not, make};

}  // namespace lathe::cpu
