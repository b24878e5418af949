// SPDX-License-Identifier: MIT
#include "ops/support/window.h"

namespace lathe {

std::vector<AttributeSpec> window_attributes(std::vector<AttributeSpec> extra) {
  std::vector<AttributeSpec> list = {{"strides", Integers{}},
                                     {"dilations", Integers{}},
                                     {"pads", Integers{}},
                                     {"auto_pad", "NOTSET"}};
  list.insert(list.end(), extra.begin(), extra.end());
  return list;
}

std::vector<Dim> window_dims(Infer& c, std::span<const Dim> input, std::span<const Dim> kernel,
                             bool ceil_mode) {
  const size_t rank = input.size();
  c.check(rank > 0 && kernel.size() == rank, "got {} spatial axes and a kernel of rank {}", rank,
          kernel.size());
  const Integers strides = window_list(c, "strides", rank, 1);
  const Integers dilations = window_list(c, "dilations", rank, 1);
  const Integers pads = window_list(c, "pads", 2 * rank, 0);
  const std::string& automatic = c.text("auto_pad");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  c.check(same || automatic == "VALID" || automatic == "NOTSET" || automatic.empty(),
          "auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", escape(automatic));
  std::vector<Dim> dims;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t begin = automatic == "VALID" ? 0 : pads[i];
    const int64_t end = automatic == "VALID" ? 0 : pads[rank + i];
    c.check(strides[i] > 0 && dilations[i] > 0 && begin >= 0 && end >= 0,
            "spatial axis {}: stride {}, dilation {} and pads {}, {}: expected at least 1, and "
            "pads of at least 0",
            i, strides[i], dilations[i], begin, end);
    if (same) {
      dims.push_back(Dim::ceil_div(input[i], strides[i]));
      continue;
    }
    const Dim span = (kernel[i] - 1) * dilations[i] + 1;
    const Dim padded = input[i] + begin + end;
    if (input[i] == Dim(0) && less_equal(padded + 1, span) == Ternary::yes) {
      dims.push_back(0);  // an empty input has no windows
      continue;
    }
    // A partial window starts at most a stride behind the last whole one.
    const Dim most = ceil_mode ? padded + (strides[i] - 1) : padded;
    c.require_less_equal(span, most, fmt::format("kernel on spatial axis {}", i));
    if (ceil_mode) {
      // A partial last window counts if it starts inside the input or the padding before it.
      dims.push_back(Dim::min(Dim::ceil_div(padded - span, strides[i]) + 1,
                              Dim::ceil_div(input[i] + begin, strides[i])));
    } else {
      dims.push_back(Dim::floor_div(padded - span, strides[i]) + 1);
    }
  }
  return dims;
}

WindowAttributes::WindowAttributes(const InstructionReader& c, size_t axes)
    : strides(window_list(c, "strides", axes, 1)),
      dilations(window_list(c, "dilations", axes, 1)),
      pads(window_list(c, "pads", 2 * axes, 0)) {
  const std::string& automatic = c.text("auto_pad");
  valid = automatic == "VALID";
  same = automatic.starts_with("SAME");
  same_upper = automatic == "SAME_UPPER";
}

void window_axes(const WindowAttributes& attributes, const TensorView& input,
                 const TensorView& output, std::span<const int64_t> kernel,
                 std::span<WindowAxis> axes) {
  const size_t rank = kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis& axis = axes[i];
    axis = {input.dims[i + 2],        output.dims[i + 2],      kernel[i],
            attributes.strides[i],    attributes.dilations[i], attributes.pads[i],
            attributes.pads[rank + i]};
    if (attributes.valid) axis.pad_begin = axis.pad_end = 0;
    if (attributes.same) {
      const int64_t span = (axis.kernel - 1) * axis.dilation + 1;
      const int64_t total =
          std::max<int64_t>(0, (axis.output - 1) * axis.stride + span - axis.input);
      axis.pad_begin = attributes.same_upper ? total / 2 : total - total / 2;
      axis.pad_end = total - axis.pad_begin;
    }
  }
}

std::vector<WindowAxis> window_axes(const Evaluation& c, const TensorView& input,
                                    const TensorView& output, std::span<const int64_t> kernel) {
  std::vector<WindowAxis> axes(kernel.size());
  window_axes(WindowAttributes(c, kernel.size()), input, output, kernel, axes);
  return axes;
}

}  // namespace lathe
