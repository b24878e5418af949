// SPDX-License-Identifier: MIT
// Sliding windows over the spatial axes: convolution and pooling.
#pragma once

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// Result shape; `input` and `kernel` are spatial. Reads strides, dilations, pads, auto_pad.
std::vector<Dim> window_dims(Infer& c, std::span<const Dim> input, std::span<const Dim> kernel,
                             bool ceil_mode = false);

// One spatial axis at run time.
struct WindowAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};

// Attribute `name` as one integer per spatial axis.
template <class Context>
Integers window_list(const Context& c, std::string_view name, size_t axes, int64_t fallback) {
  if (!c.has_attribute(name) || c.integers(name).empty()) return Integers(axes, fallback);
  const Integers& list = c.integers(name);
  c.check(list.size() == axes, "'{}' has {} entries, expected {}", name, list.size(), axes);
  return list;
}

// strides, dilations, pads and auto_pad of an instruction with `axes` spatial axes.
struct WindowAttributes {
  WindowAttributes() = default;
  WindowAttributes(const InstructionReader& c, size_t axes);
  Integers strides;
  Integers dilations;
  Integers pads;
  bool valid = false;  // no padding
  bool same = false;   // pads so that output = ceil(input / stride)
  bool same_upper = false;
};

// The spatial axes of input and output views [n, c, spatial…] for a kernel.
void window_axes(const WindowAttributes& attributes, const TensorView& input,
                 const TensorView& output, std::span<const int64_t> kernel,
                 std::span<WindowAxis> axes);
std::vector<WindowAxis> window_axes(const Evaluation& c, const TensorView& input,
                                    const TensorView& output, std::span<const int64_t> kernel);

// The attributes strides, dilations, pads and auto_pad, and `extra`.
std::vector<AttributeSpec> window_attributes(std::vector<AttributeSpec> extra = {});

}  // namespace lathe
