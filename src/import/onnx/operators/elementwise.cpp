// SPDX-License-Identifier: MIT
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {

// Before opset 7 the second operand broadcasts only with an attribute, from axis `axis` on.
void import_legacy_broadcast(NodeImport& c) {
  Value* y = c.in(1);
  const bool broadcast = c.integer("broadcast", 0) != 0;
  if (broadcast && c.has_attribute("axis")) {
    const int64_t given = c.integer("axis");
    const int64_t axis = given < 0 ? given + c.rank(0) : given;
    const int64_t behind = c.rank(0) - axis - c.rank(1);
    c.check(axis >= 0 && behind >= 0, "axis {} is out of range for ranks {} and {}", given,
            c.rank(0), c.rank(1));
    Integers axes;
    for (int64_t i = 0; i < behind; ++i) axes.push_back(c.rank(1) + i);
    if (!axes.empty()) y = c.b("unsqueeze", {y, c.b.integers(axes)});
  }
  c.ignore({"axis"});
  c.plain({c.in(0), y});
}

void import_legacy_gemm(NodeImport& c) {
  c.ignore({"broadcast"});
  c.plain(c.inputs());
}

// Before opset 7 a slope of rank 1 is per channel.
void import_legacy_prelu(NodeImport& c) {
  Value* slope = c.in(1);
  if (c.rank(1) == 1 && c.rank(0) > 2) {
    Integers axes;
    for (int axis = 1; axis < c.rank(0) - 1; ++axis) axes.push_back(axis);
    slope = c.b("unsqueeze", {slope, c.b.integers(axes)});
  }
  c.plain({c.in(0), slope});
}

// The attribute has the type's name, not its number.
void import_cast_1(NodeImport& c) {
  constexpr std::array<std::string_view, 12> kNames{"",       "FLOAT", "UINT8",   "INT8",
                                                    "UINT16", "INT16", "INT32",   "INT64",
                                                    "STRING", "BOOL",  "FLOAT16", "DOUBLE"};
  const std::string_view to = c.text("to");
  const auto at = std::find(kNames.begin() + 1, kNames.end(), to);
  c.check(at != kNames.end(), "attribute 'to' is '{}', which is not an element type", escape(to));
  c.plain({c.in(0)}, {{"to", *element_type_from_onnx(at - kNames.begin())}});
}

void import_cast_like(NodeImport& c) {
  const ElementType to = c.element(1);
  c.plain({c.in(0)}, {{"to", to}});
}

// Types without arithmetic have an op that only moves elements.
void import_where(NodeImport& c) {
  const bool is_computed = (get_op("where").operands[1].types & type_bit(c.element(1))) != 0;
  c.plain(is_computed ? "where" : "choose", c.inputs());
}

void import_equal(NodeImport& c) {
  const bool texts = c.element(0) == ElementType::string;
  c.plain(texts ? "string_equal" : c.op(), c.inputs());
}

// Experimental operators that opset 10 removed; saved models still have them.
void import_affine(NodeImport& c) {
  const auto number = [&](std::string_view name, double fallback) {
    return c.b.scalar(c.element(0), c.number(name, fallback));
  };
  c.out(0, c.b("add", {c.b("mul", {c.in(0), number("alpha", 1)}), number("beta", 0)}));
}

void import_image_scaler(NodeImport& c) {
  const Numbers bias = c.numbers("bias", Numbers{});
  Value* scale = c.b.scalar(c.element(0), c.number("scale", 1));
  Value* y = c.b("mul", {c.in(0), scale});
  if (bias.empty()) return c.out(0, y);
  Tensor column(ElementType::f32, {static_cast<int64_t>(bias.size()), 1, 1});
  for (size_t i = 0; i < bias.size(); ++i) column.as<float>()[i] = static_cast<float>(bias[i]);
  c.out(0, c.b("add", {y, c.b.cast(c.b.literal(std::move(column)), c.element(0))}));
}

// alpha · f(beta · x)
void import_scaled(NodeImport& c) {
  const auto number = [&](std::string_view name) {
    return c.b.scalar(c.element(0), c.number(name));
  };
  Value* alpha = number("alpha");
  Value* inner = c.b("mul", {c.in(0), number("beta")});
  c.out(0, c.b("mul", {alpha, c.b(c.op(), {inner})}));
}

}  // namespace lathe::onnx
