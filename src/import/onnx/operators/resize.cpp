// SPDX-License-Identifier: MIT
#include <algorithm>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// In opset 11 an empty tensor means an absent operand.
Value* unless_empty(NodeImport& c, int i) {
  Value* value = c.in_or_null(i);
  if (value == nullptr || !value->type().is_ranked()) return value;
  return element_count(*value->type().dims) == Dim(0) ? nullptr : value;
}

// The scales of Upsample-1 as an operand.
Value* scales_of(NodeImport& c) {
  std::vector<float> scales;
  if (c.has_attribute("scales")) {
    for (const double scale : c.numbers("scales")) scales.push_back(static_cast<float>(scale));
  } else {
    scales = {1, 1, static_cast<float>(c.number("height_scale")),
              static_cast<float>(c.number("width_scale"))};
  }
  Tensor tensor(ElementType::f32, {static_cast<int64_t>(scales.size())});
  std::copy(scales.begin(), scales.end(), tensor.as<float>());
  return c.b.literal(std::move(tensor));
}

}  // namespace

void import_resize(NodeImport& c) {
  Value* sizes = unless_empty(c, 3);
  c.plain({c.in(0), unless_empty(c, 1), unless_empty(c, 2), sizes});
}

// Upsample and Resize before opset 11 divide coordinates by the scales. The nearest element is
// the previous one, or the next one if the result is smaller.
void import_resize_10(NodeImport& c) {
  Value* scales = c.has(1) ? c.in(1) : scales_of(c);
  const std::string_view mode = c.text("mode", "nearest");
  bool smaller = false;
  if (const LiteralRef literal =
          scales->definition() == nullptr ? nullptr : scales->definition()->literal()) {
    const Tensor values = literal->tensor.aligned();
    c.check(values.type() == ElementType::f32, "scales are {}, expected f32",
            to_string(values.type()));
    const auto list = values.elements<float>();
    smaller = std::any_of(list.begin(), list.end(), [](float scale) { return scale < 1; });
  }
  c.out(0, c.b("resize", {c.in(0), nullptr, scales},
               {{"mode", std::string(mode == "bilinear" ? "linear" : mode)},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string(smaller ? "ceil" : "floor")}}));
}

}  // namespace lathe::onnx
