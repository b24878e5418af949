// SPDX-License-Identifier: MIT
// Operators of networks with several residual streams: x[…, branches, features], or flattened to
// x[…, branches · features]. They compute in f32.
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// The sizes of axes from..to, which may be negative.
Value* sizes(Builder& b, Value* x, int64_t from, std::optional<int64_t> to = {}) {
  Attributes attributes{{"start", from}};
  if (to) attributes.push_back({"end", *to});
  return b("shape", {x}, std::move(attributes));
}

Value* joined(Builder& b, std::vector<Value*> parts) {
  return b("concat", std::move(parts), {{"axis", int64_t{0}}});
}

// Streams apart: […, branches, features].
Value* grouped(NodeImport& c, Value* x) {
  x = c.b.cast(x, ElementType::f32);
  const int64_t branches = c.integer("num_branches", 0);
  if (branches == 0) return x;
  return c.b("reshape", {x, joined(c.b, {sizes(c.b, x, 0, -1), c.b.integers({branches, -1})})});
}

// Factors […, branches], […, branches · features] or of the rank of the streams, for the streams.
Value* factors_for(NodeImport& c, int i, Value* streams) {
  Value* factors = c.b.cast(c.in(i), ElementType::f32);
  if (c.rank(i) == streams->type().rank()) return factors;
  return c.b("reshape", {factors, joined(c.b, {sizes(c.b, factors, 0, -1),
                                               sizes(c.b, streams, -2, -1), c.b.integers({-1})})});
}

// A scale of all features or those of each branch, as […, features].
Value* scale_for(NodeImport& c, int i, Value* streams) {
  Value* shape = joined(c.b, {c.b.integers({-1}), sizes(c.b, streams, -1)});
  return c.b("reshape", {c.b.cast(c.in(i), ElementType::f32), shape});
}

Value* rms_normalised(NodeImport& c, Value* x) {
  Value* squares = c.b("reduce_mean", {c.b("mul", {x, x}), c.b.integers({-1})});
  Value* epsilon = c.b.scalar(ElementType::f32, c.number("epsilon", 1e-5));
  return c.b("div", {x, c.b("sqrt", {c.b("add", {squares, epsilon})})});
}

// A result in the type and shape of operand 0.
void out_as_operand(NodeImport& c, Value* result) {
  result = c.b.cast(result, c.element(0));
  c.out(0, c.b("reshape", {result, sizes(c.b, c.in(0), 0)}));
}

}  // namespace

void import_branchwise_rms_norm(NodeImport& c) {
  Value* x = grouped(c, c.in(0));
  Value* result = rms_normalised(c, x);
  if (c.has(1)) result = c.b("mul", {result, scale_for(c, 1, x)});
  out_as_operand(c, result);
}

// Y[h] = reduction_scale · sum over branches of streams[c, h] · pre_mix[c, h].
void import_hyper_connection_pre_mix(NodeImport& c) {
  Value* streams = grouped(c, c.in(0));
  Value* mixed = c.b("mul", {streams, factors_for(c, 1, streams)});
  Value* sum = c.b("reduce_sum", {mixed, c.b.integers({-2})}, {{"keep_dims", false}});
  Value* factor = c.b.scalar(ElementType::f32, c.number("reduction_scale", 1.0));
  c.out(0, c.b.cast(c.b("mul", {sum, factor}), c.element(0)));
}

// Y[k, h] = sum over branches of stream_mix[c, k] · streams[c, h] + post_mix[k, h] ·
// block_output[h].
void import_hyper_connection_post_mix(NodeImport& c) {
  Value* streams = grouped(c, c.in(0));
  Value* branch = c.b("unsqueeze", {c.b.cast(c.in(1), ElementType::f32), c.b.integers({-2})});
  Value* added = c.b("mul", {factors_for(c, 2, streams), branch});
  if (c.has(3)) {
    std::vector<int64_t> swapped;
    for (int axis = 0; axis < c.rank(3); ++axis) swapped.push_back(axis);
    c.check(swapped.size() >= 2, "stream_mix has rank {}, expected at least 2", swapped.size());
    std::swap(swapped.back(), swapped[swapped.size() - 2]);
    Value* mix = c.b.transpose(c.b.cast(c.in(3), ElementType::f32), swapped);
    streams = c.b("matmul", {mix, streams});
  }
  out_as_operand(c, c.b("add", {streams, added}));
}

// gate = sigmoid(sign(dot) · sqrt(max(|dot|, 1e-6))) of the scaled product of normalised rows.
void import_engram_gate(NodeImport& c) {
  Value* key = c.b.cast(c.in(0), ElementType::f32);
  const auto scaled = [&](int row, int scale) {
    Value* x = c.b.cast(c.in(row), ElementType::f32);
    return c.b("mul", {rms_normalised(c, x), scale_for(c, scale, x)});
  };
  Value* products = c.b("mul", {scaled(0, 3), scaled(1, 4)});
  Value* dot = c.b("reduce_sum", {products, c.b.integers({-1})});
  dot = c.b("div", {dot, c.b("sqrt", {c.b.cast(sizes(c.b, key, -1), ElementType::f32)})});
  Value* size = c.b("max", {c.b("abs", {dot}), c.b.scalar(ElementType::f32, 1e-6)});
  Value* gate = c.b("sigmoid", {c.b("mul", {c.b("sign", {dot}), c.b("sqrt", {size})})});
  Value* value = c.b("unsqueeze", {c.b.cast(c.in(2), ElementType::f32), c.b.integers({-2})});
  Value* gated = c.b("mul", {gate, value});
  out_as_operand(c, gated);
  if (!c.is_used(1)) return;
  Value* normalised = c.b("mul", {rms_normalised(c, gated), scale_for(c, 5, gated)});
  c.out(1, c.b.cast(normalised, c.element(0)));
}

}  // namespace lathe::onnx
