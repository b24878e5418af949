// SPDX-License-Identifier: MIT
// Imports operators of com.microsoft that move, select and combine elements.
#include <limits>

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// Elements [first, last) along an axis.
Value* part_of(Builder& b, Value* x, int64_t axis, int64_t first, int64_t last) {
  return b("slice", {x, b.integers({first}), b.integers({last}), b.integers({axis})});
}

// A tensor of one element as a scalar.
Value* scalar_of(NodeImport& c, int i) { return c.b("reshape", {c.in(i), c.b.integers({})}); }

}  // namespace

// Inputs start, limit, delta?.
void import_microsoft_range(NodeImport& c) {
  Value* start = scalar_of(c, 0);
  Value* limit = scalar_of(c, 1);
  Value* delta = c.has(2) ? scalar_of(c, 2) : c.b.scalar(c.element(0), 1);
  c.out(0, c.b("range", {start, limit, delta}));
}

// Outputs the unique elements in the order of their first occurrence, inverse indices and counts.
void import_microsoft_unique(NodeImport& c) {
  Instruction* unique = c.b.add("unique", {c.in(0)}, {{"sorted", false}});
  c.out(0, unique->result(0));
  c.out(1, unique->result(2));
  c.out(2, unique->result(3));
}

// Inputs x, pads ([2 · rank] or [1, 2 · rank]), value?.
void import_microsoft_pad(NodeImport& c) {
  std::vector<Value*> operands = {c.in(0), c.b("reshape", {c.in(1), c.b.integers({-1})})};
  if (c.has(2)) operands.push_back(scalar_of(c, 2));
  c.out(0, c.b("pad", std::move(operands), c.record_attributes(get_op("pad"))));
}

void import_expand_dims(NodeImport& c) {
  Value* axis = c.b.cast(c.b("reshape", {c.in(1), c.b.integers({1})}), ElementType::i64);
  c.out(0, c.b("unsqueeze", {c.in(0), axis}));
}

// The distance of each row of a to each row of b: |a|² + |b|² - 2 a·b.
void import_cdist(NodeImport& c) {
  Builder& b = c.b;
  const std::string_view metric = c.text("metric", "sqeuclidean");
  c.supported(metric == "euclidean" || metric == "sqeuclidean",
              "metric is '{}', expected euclidean or sqeuclidean", escape(metric));
  const auto squares = [&](int i, bool keep) {
    return b("reduce_sum_square", {c.in(i), b.integers({1})}, {{"keep_dims", keep}});
  };
  const auto number = [&](double v) { return b.scalar(c.element(0), v); };
  Value* product = b("matmul", {c.in(0), b.transpose(c.in(1), {1, 0})});
  Value* sum = b("add", {squares(0, true), squares(1, false)});
  Value* y = b("max", {b("sub", {sum, b("mul", {product, number(2)})}), number(0)});
  c.out(0, metric == "euclidean" ? b("sqrt", {y}) : y);
}

// Inputs weights, indices, padding index?, scale gradients?. The last two are for training.
void import_tokenizer(NodeImport& c) {
  for (const std::string_view name : {"mark", "mincharnum", "pad_value"}) {
    c.check(c.has_attribute(name), "attribute '{}' is missing", name);
  }
  c.plain(c.inputs());
}

void import_torch_embedding(NodeImport& c) { c.out(0, c.b("gather", {c.in(0), c.in(1)})); }

namespace {

// x · y, or x · conj(y), of pairs (real, imaginary) along the last axis.
void multiply_complex(NodeImport& c, double sign) {
  Builder& b = c.b;
  const auto halves = [&](int i) {
    return b.add("split", {c.in(i)}, {{"axis", int64_t{-1}}}, {}, 2);
  };
  Instruction* x = halves(0);
  Instruction* y = halves(1);
  const auto product = [&](int i, int j) { return b("mul", {x->result(i), y->result(j)}); };
  Value* real = b(sign < 0 ? "add" : "sub", {product(0, 0), product(1, 1)});
  Value* imaginary = b(sign < 0 ? "sub" : "add", {product(1, 0), product(0, 1)});
  c.out(0, b("concat", {real, imaginary}, {{"axis", int64_t{-1}}}));
}

// Transforms the axes of `x` [.., signal.., 2] from the last to the first, the last `onesided`.
Value* transform(NodeImport& c, Value* x, bool inverse) {
  Builder& b = c.b;
  c.supported(c.integer("normalized", 0) == 0 && c.integer("onesided", 1) == 1,
              "normalized is {} and onesided is {}, expected 0 and 1", c.integer("normalized", 0),
              c.integer("onesided", 1));
  const int64_t count = inverse ? c.integer("signal_ndim") : c.integer("signal_ndim", 1);
  const int64_t last = x->type().rank() - 2;
  c.check(count >= 1 && count <= last + 1, "signal_ndim is {} for rank {}", count, c.rank(0));
  const auto step = [&](int64_t axis, bool half) {
    x = b("dft", {x, nullptr, b.scalar(ElementType::i64, static_cast<double>(axis))},
          {{"inverse", inverse}, {"onesided", half}});
  };
  if (!inverse) step(last, true);
  for (int64_t axis = last - 1; axis > last - count; --axis) step(axis, false);
  if (inverse) step(last, true);
  return x;
}

}  // namespace

void import_complex_mul(NodeImport& c) { multiply_complex(c, 1); }
void import_complex_mul_conj(NodeImport& c) { multiply_complex(c, -1); }

void import_rfft(NodeImport& c) {
  (void)c.rank(0);  // known
  c.out(0, transform(c, c.b("unsqueeze", {c.in(0), c.b.integers({-1})}), false));
}

void import_irfft(NodeImport& c) {
  (void)c.rank(0);  // known
  c.out(0, c.b("squeeze", {transform(c, c.in(0), true), c.b.integers({-1})}));
}

Value* block_repeated_ngrams(Builder& b, Value* ids, Value* scores, int64_t n) {
  Value* words = part_of(b, ids, 1, n - 1, kEnd);  // each of the n-grams' last words
  Value* repeated = b("equal", {words, words});
  for (int64_t i = 0; i + 1 < n; ++i) {
    const int64_t back = i - n + 1;  // from the end
    Value* here = part_of(b, ids, 1, back, back == -1 ? kEnd : back + 1);
    Value* equal = b("equal", {part_of(b, ids, 1, i, back), here});
    repeated = b("and", {repeated, equal});
  }
  const ElementType type = scores->type().element;
  const double infinity = std::numeric_limits<double>::infinity();
  Value* limit = b("where", {repeated, b.scalar(type, -infinity), b.scalar(type, infinity)});
  return b("scatter_elements", {scores, words, limit},
           {{"axis", int64_t{1}}, {"reduction", std::string("min")}});
}

void import_n_gram_repeat_block(NodeImport& c) {
  const int64_t n = c.integer("ngram_size");
  c.check(n >= 1 && n <= 1024, "ngram_size is {}, expected 1 to 1024", n);
  c.out(0, block_repeated_ngrams(c.b, c.in(0), c.in(1), n));
}

// The slices of `size` elements along an axis, every `step`; their elements are the last axis.
void import_unfold_tensor(NodeImport& c) {
  Builder& b = c.b;
  const int rank = c.rank(0);
  int64_t axis = c.integer("dim", -1);
  c.check(axis >= -rank && axis < rank, "dim {} is out of range for rank {}", axis, rank);
  if (axis < 0) axis += rank;
  const int64_t size = c.integer("size");
  const int64_t step = c.integer("step", 1);
  c.check(size >= 1 && step >= 1 && size <= 1 << 24,
          "size is {} and step is {}, expected at least 1 and a size up to 2^24", size, step);
  const auto integer = [&](int64_t v) {
    return b.scalar(ElementType::i64, static_cast<double>(v));
  };
  Value* extent = b("shape", {c.in(0)}, {{"start", axis}, {"end", axis + 1}});
  Value* last = b("sub", {b("squeeze", {extent, b.integers({0})}), integer(size - 1)});
  Value* first = b("unsqueeze", {b("range", {integer(0), last, integer(step)}), b.integers({1})});
  Value* inside = b("range", {integer(0), integer(size), integer(1)});
  Value* y = b("gather", {c.in(0), b("add", {first, inside})}, {{"axis", axis}});
  Integers order;
  for (int64_t i = 0; i <= rank; ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  c.out(0, b.transpose(y, order));
}

// Inputs x, w, pads?, bias?: the transposed convolution without padding, cut by the pads.
void import_conv_transpose_with_dynamic_pads(NodeImport& c) {
  Builder& b = c.b;
  check_kernel_shape(c, 1);
  const std::vector<Value*> operands = {c.in(0), c.in(1), c.in_or_null(3)};
  const Attributes attributes = c.record_attributes(get_op("conv_transpose"));
  if (!c.has(2)) {
    c.out(0, b("conv_transpose", operands, attributes));
    return;
  }
  const std::string_view mode = c.text("auto_pad", "NOTSET");
  c.supported(mode == "NOTSET", "auto_pad is '{}' beside pads, expected NOTSET", escape(mode));
  Value* y = b("conv_transpose", operands, attributes);
  const int spatial = c.rank(0) - 2;
  Integers axes;
  for (int i = 0; i < spatial; ++i) axes.push_back(i + 2);
  Value* pads = b("reshape", {c.in(2), b.integers({2, -1})});
  const auto half = [&](int64_t i) {
    return b("gather", {pads, b.scalar(ElementType::i64, static_cast<double>(i))});
  };
  Value* end = b("sub", {b("shape", {y}, {{"start", int64_t{2}}}), half(1)});
  c.out(0, b("slice", {y, half(0), end, b.integers(axes)}));
}

// Inputs x, mask. Elements whose mask is 0 do not take part.
void import_max_pool_with_mask(NodeImport& c) {
  Builder& b = c.b;
  const Attributes attributes = c.record_attributes(get_op("max_pool"));
  Value* kept = b("not", {b("equal", {c.in(1), b.scalar(c.element(1), 0)})});
  Value* low = b.scalar(c.element(0), std::numeric_limits<float>::lowest());
  c.out(0, b("max_pool", {b("where", {kept, c.in(0), low})}, attributes));
}

// Inputs x, bias, residual?, ratio?, training mode?: x + bias (+ residual) in inference.
void import_bias_dropout(NodeImport& c) {
  Builder& b = c.b;
  c.ignore({"seed"});
  if (c.has(4)) {
    const std::optional<Tensor> training = c.literal(4);
    c.supported(training && training->count() == 1 && *training->as<uint8_t>() == 0,
                "training_mode is {}, expected false", c.in(4)->type().to_string());
  }
  Value* y = b("add", {c.in(0), c.in(1)});
  if (c.has(2)) y = b("add", {y, c.in(2)});
  c.out(0, y);
  if (!c.is_used(1)) return;
  c.out(1, b("expand", {b.scalar(ElementType::boolean, 1), b("shape", {c.in(0)})}));
}

// Whether all elements of all inputs are finite.
void import_is_all_finite(NodeImport& c) {
  Builder& b = c.b;
  const bool infinite = c.integer("isinf_only", 0) != 0;
  const bool nan = c.integer("isnan_only", 0) != 0;
  c.check(!infinite || !nan, "isinf_only is {} and isnan_only is {}, expected one of them",
          infinite, nan);
  Value* worst = nullptr;
  for (int i = 0; i < c.count(); ++i) {
    Value* bad = infinite ? nullptr : b("is_nan", {c.in(i)});
    if (!nan) {
      Value* inf = b("is_inf", {c.in(i)});
      bad = bad == nullptr ? inf : b("or", {bad, inf});
    }
    bad = b("reduce_max", {b("reshape", {b.cast(bad, ElementType::u8), b.integers({-1})})},
            {{"keep_dims", false}});
    worst = worst == nullptr ? bad : b("max", {worst, bad});
  }
  c.check(worst != nullptr, "the node has {} inputs, expected at least 1", c.count());
  c.out(0, b("equal", {worst, b.scalar(ElementType::u8, 0)}));
}

// z · sigmoid(z) of z = scale · x, rounded after each step.
void import_scaled_silu(NodeImport& c) {
  Builder& b = c.b;
  const ElementType type = c.element(0);
  Value* scale = c.has(1) ? b.cast(scalar_of(c, 1), ElementType::f32)
                          : b.scalar(ElementType::f32, c.number("alpha", 1.0));
  c.ignore({"alpha"});
  Value* z = b.cast(b("mul", {b.cast(c.in(0), ElementType::f32), scale}), type);
  c.out(0, b("mul", {z, b("sigmoid", {z})}));
}

}  // namespace lathe::onnx
