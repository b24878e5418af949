// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"
#include "tensor/convert.h"

namespace lathe::onnx {

// Reduce* before opset 18 (ReduceSum 13), Squeeze and Unsqueeze before 13.
void import_axes_attribute(NodeImport& c) {
  c.check(c.count() <= 1, "the node has {} inputs, expected 1", c.count());
  Value* axes = c.has_attribute("axes") ? c.b.integers(c.integers("axes")) : nullptr;
  c.plain({c.in(0), axes});
}

// Before opset 20 the axis is an attribute, 1 by default.
void import_dft_17(NodeImport& c) {
  Value* axis = c.b.scalar(ElementType::i64, static_cast<double>(c.integer("axis", 1)));
  c.plain({c.in(0), c.in_or_null(1), axis});
}

// Before opset 16 pixels have integer coordinates.
void import_roi_align_10(NodeImport& c) {
  c.plain({c.in(0), c.in(1), c.in(2)},
          {{"coordinate_transformation_mode", std::string("output_half_pixel")}});
}

// Without axes, or with an empty list: every axis of size 1.
void import_squeeze(NodeImport& c) {
  const bool is_empty =
      c.has(1) && c.in(1)->type().is_ranked() && element_count(*c.in(1)->type().dims) == Dim(0);
  c.plain({c.in(0), is_empty ? nullptr : c.in_or_null(1)});
}

void import_clip_1(NodeImport& c) {
  const auto bound = [&](std::string_view name) {
    return c.has_attribute(name) ? c.b.scalar(c.element(0), c.number(name)) : nullptr;
  };
  Value* low = bound("min");
  c.plain({c.in(0), low, bound("max")});
}

void import_pad_1(NodeImport& c) {
  Value* pads = c.b.integers(c.integers(c.version < 2 ? "paddings" : "pads"));
  c.plain({c.in(0), pads, c.b.scalar(c.element(0), c.number("value", 0.0))});
}

void import_reshape_1(NodeImport& c) { c.plain({c.in(0), c.b.integers(c.integers("shape"))}); }

void import_slice_1(NodeImport& c) {
  Value* starts = c.b.integers(c.integers("starts"));
  Value* ends = c.b.integers(c.integers("ends"));
  Value* axes = c.has_attribute("axes") ? c.b.integers(c.integers("axes")) : nullptr;
  c.plain({c.in(0), starts, ends, axes});
}

// Before opset 18 the number of outputs is the default number of parts.
void import_split_1(NodeImport& c) {
  // Opset 1 has the sizes in x's type.
  Value* split = c.has(1) ? c.b.cast(c.in(1), ElementType::i64) : nullptr;
  if (c.version < 13 && c.has_attribute("split")) split = c.b.integers(c.integers("split"));
  Attributes extra;
  if (split == nullptr) extra.emplace_back("num_outputs", int64_t{c.outputs()});
  c.plain({c.in(0), split}, std::move(extra));
}

// tile(x, tiles, axis): scalars of x's type.
void import_tile_1(NodeImport& c) {
  const auto scalar = [&](int i) {
    const std::optional<Tensor> value = c.literal(i);
    c.supported(value && value->count() == 1, "input {} is {}, expected a constant in opset {}", i,
                c.in(i)->type().to_string(), c.version);
    return static_cast<int64_t>(load_double(value->type(), value->data(), 0));
  };
  const int64_t axis = scalar(2);
  c.check(axis >= 0 && axis < c.rank(0), "axis {} is out of range for rank {}", axis, c.rank(0));
  Integers repeats(static_cast<size_t>(c.rank(0)), 1);
  repeats[static_cast<size_t>(axis)] = scalar(1);
  c.plain({c.in(0), c.b.integers(repeats)});
}

void import_top_k_1(NodeImport& c) { c.plain({c.in(0), c.b.integers({c.integer("k")})}); }

}  // namespace lathe::onnx
