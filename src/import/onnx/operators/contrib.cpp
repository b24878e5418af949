// SPDX-License-Identifier: MIT
#include <numeric>

#include "import/onnx/operators/channels_last.h"
#include "import/onnx/operators/operators.h"

namespace lathe::onnx {
namespace {

// alpha and beta of an activation, from a list or from single attributes.
struct Activation {
  std::string_view name;
  std::vector<double> parameters;
  int64_t axis = -1;

  double parameter(size_t i, double fallback) const {
    return i < parameters.size() ? parameters[i] : fallback;
  }
};

Value* activate(NodeImport& c, Value* x, const Activation& f) {
  Builder& b = c.b;
  if (f.name.empty()) return x;
  for (const std::string_view plain :
       {"Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Softsign"}) {
    if (f.name == plain) return b(find_op_alike(plain)->name, {x});
  }
  for (const std::string_view normalised : {"Softmax", "LogSoftmax", "Hardmax"}) {
    if (f.name == normalised) return b(find_op_alike(normalised)->name, {x}, {{"axis", f.axis}});
  }
  for (const std::string_view scaled : {"Elu", "Celu", "ThresholdedRelu"}) {
    if (f.name == scaled) {
      return b(find_op_alike(scaled)->name, {x}, {{"alpha", f.parameter(0, 1.0)}});
    }
  }
  if (f.name == "LeakyRelu") return b("leaky_relu", {x}, {{"alpha", f.parameter(0, 0.01)}});
  if (f.name == "HardSigmoid") {
    return b("hard_sigmoid", {x}, {{"alpha", f.parameter(0, 0.2)}, {"beta", f.parameter(1, 0.5)}});
  }
  if (f.name == "Clip" && f.parameters.size() == 2) {
    const ElementType type = x->type().element;
    Value* low = b.scalar(type, f.parameters[0]);
    return b("clip", {x, low, b.scalar(type, f.parameters[1])});
  }
  lathe::fail(ErrorKind::unsupported, "activation '{}' with {} parameters is not supported",
              escape(f.name), f.parameters.size());
}

// The activation in single attributes.
Activation activation_of(NodeImport& c) {
  Activation f{c.text("activation", ""), {}};
  for (const std::string_view name : {"activation_alpha", "activation_beta"}) {
    if (c.has_attribute(name)) f.parameters.push_back(c.number(name));
  }
  c.ignore({"activation_gamma"});
  return f;
}

Value* add_if(NodeImport& c, Value* x, Value* y) { return y == nullptr ? x : c.b("add", {x, y}); }

}  // namespace

void import_bias_gelu(NodeImport& c) { c.out(0, c.b("gelu", {c.b("add", {c.in(0), c.in(1)})})); }

void import_fast_gelu(NodeImport& c) {
  c.out(0,
        c.b("gelu", {add_if(c, c.in(0), c.in_or_null(1))}, {{"approximate", std::string("tanh")}}));
}

void import_quick_gelu(NodeImport& c) {
  c.out(0, c.b("swish", {c.in(0)}, {{"alpha", c.number("alpha", 1.702)}}));
}

void import_gemm_fast_gelu(NodeImport& c) {
  Value* product = c.b("matmul", {c.in(0), c.in(1)});
  c.out(0,
        c.b("gelu", {add_if(c, product, c.in_or_null(2))}, {{"approximate", std::string("tanh")}}));
}

// The left half of x + bias times the GELU of the right half.
void import_bias_split_gelu(NodeImport& c) {
  Instruction* halves = c.b.add("split", {c.b("add", {c.in(0), c.in(1)})},
                                {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}, {}, 2);
  c.out(0, c.b("mul", {halves->result(0), c.b("gelu", {halves->result(1)})}));
}

void import_bias_add(NodeImport& c) {
  c.out(0, c.b("add", {c.b("add", {c.in(0), c.in(1)}), c.in(2)}));
}

namespace {

// Tables of an embedding, and its node's inputs. Null: absent.
struct Embedding {
  Value* words;
  Value* positions;
  Value* segments;
  Value* gamma;
  Value* beta;
  Value* mask;
  Value* position_ids;
};

// Inputs ids, segment ids?.
void embed(NodeImport& c, const Embedding& tables) {
  Builder& b = c.b;
  const auto extent = [&](int64_t axis) {
    return b("shape", {c.in(0)}, {{"start", axis}, {"end", axis + 1}});
  };
  Value* places = tables.position_ids;
  if (places == nullptr) {
    Value* rows = b("squeeze", {extent(1), b.integers({0})});
    places = b("range", {b.scalar(ElementType::i64, 0), rows, b.scalar(ElementType::i64, 1)});
  }
  Value* words = b("gather", {tables.words, c.in(0)});
  Value* sum = b("add", {words, b("gather", {tables.positions, places})});
  if (c.has(1) && tables.segments != nullptr) {
    sum = b("add", {sum, b("gather", {tables.segments, c.in(1)})});
  }
  c.ignore({"mask_index_type"});
  c.out(0, b.add("layer_normalization", {sum, tables.gamma, tables.beta},
                 {{"epsilon", c.number("epsilon", 1e-12)}})
               ->result());
  if (c.is_used(1)) {
    c.out(1, tables.mask != nullptr
                 ? b("reduce_sum", {tables.mask, b.integers({1})}, {{"keep_dims", false}})
                 : b("constant_of_shape", {extent(0), b.scalar(ElementType::i32, 0)}));
  }
  c.out(2, sum);
}

}  // namespace

// Inputs ids, segment ids?, words, positions, segments?, gamma, beta, mask?, position ids?.
void import_embed_layer_normalization(NodeImport& c) {
  embed(c, {c.in(2), c.in(3), c.in_or_null(4), c.in(5), c.in(6), c.in_or_null(7), c.in_or_null(8)});
}

// No position ids; inputs 8 to 12 are the scales of the five tables, 13 to 17 their
// zero points.
void import_qembed_layer_normalization(NodeImport& c) {
  const auto table = [&](int i) -> Value* {
    if (!c.has(i)) return nullptr;
    return c.b("dequantize_linear", {c.in(i), c.in(i + 6), c.in_or_null(i + 11)});
  };
  Value* words = table(2);
  Value* positions = table(3);
  Value* segments = table(4);
  Value* gamma = table(5);
  embed(c, {words, positions, segments, gamma, table(6), c.in_or_null(7), nullptr});
}

// y = f(conv(x, w) + bias + z)
void import_fused_conv(NodeImport& c) {
  check_kernel_shape(c, 1);
  const Activation f{c.text("activation", ""), c.numbers("activation_params", Numbers{})};
  Value* y = c.b("conv", {c.in(0), c.in(1), c.in_or_null(2)}, c.record_attributes(get_op("conv")));
  c.out(0, activate(c, add_if(c, y, c.in_or_null(3)), f));
}

// FusedConv with the channels of x, z and y last.
void import_nhwc_conv(NodeImport& c) {
  check_kernel_shape(c, 1);
  const Activation f{c.text("activation", ""), c.numbers("activation_params", Numbers{})};
  const Attributes attributes = c.record_attributes(get_op("conv"));
  c.supported(c.rank(0) > 2, "input 0 has rank {}, expected at least 3", c.rank(0));
  Value* y = with_channels_first(c, c.in(0), true, [&](Value* x) {
    return c.b("conv", {x, c.in(1), c.in_or_null(2)}, attributes);
  });
  c.out(0, activate(c, add_if(c, y, c.in_or_null(3)), f));
}

void import_nhwc_max_pool(NodeImport& c) {
  const Attributes attributes = c.record_attributes(get_op("max_pool"));
  c.supported(c.rank(0) > 2, "input 0 has rank {}, expected at least 3", c.rank(0));
  c.out(0, with_channels_first(c, c.in(0), true,
                               [&](Value* x) { return c.b("max_pool", {x}, attributes); }));
}

void import_fused_gemm(NodeImport& c) {
  const Activation f = activation_of(c);
  c.out(0, activate(c, c.b("gemm", c.inputs(), c.record_attributes(get_op("gemm"))), f));
}

namespace {

// Transposes the operand's batch axes and matrices into the order of matmul.
Value* matrix_operand(NodeImport& c, int i, std::string_view transpose, std::string_view batch) {
  const bool swap = c.integer(transpose, 0) != 0;
  const bool rotate = c.integer(batch, 0) != 0;
  const int rank = c.rank(i);
  if ((!swap && !rotate) || rank < 2) return c.in(i);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  // Moves axis 0 behind the batch axes.
  if (rotate) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swap) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.b.transpose(c.in(i), order);
}

Value* fused_matmul(NodeImport& c) {
  Value* a = matrix_operand(c, 0, "transA", "transBatchA");
  Value* y = c.b("matmul", {a, matrix_operand(c, 1, "transB", "transBatchB")});
  const double alpha = c.number("alpha", 1.0);
  return alpha == 1.0 ? y : c.b("mul", {y, c.b.scalar(y->type().element, alpha)});
}

}  // namespace

void import_fused_matmul(NodeImport& c) { c.out(0, fused_matmul(c)); }

void import_fused_matmul_activation(NodeImport& c) {
  static_cast<void>(c.text("activation"));  // required
  Activation f = activation_of(c);
  f.axis = c.integer("activation_axis", -1);
  c.out(0, activate(c, fused_matmul(c), f));
}

void import_matmul_n_bits(NodeImport& c) {
  const int64_t level = c.integer("accuracy_level", 0);
  c.supported(c.integer("weight_prepacked", 0) == 0, "weight_prepacked is {}, expected 0",
              c.integer("weight_prepacked", 0));
  c.plain(c.inputs(), {{"compute_type", std::string(level == 4 ? "int8" : "f32")}});
}

namespace {

// RoPE rotates whole heads in pairs, so the tables' width is half the head size.
int64_t heads_of(NodeImport& c) {
  const Dim hidden = (*c.in(0)->type().dims)[2];
  const Dim pairs = c.rank(2) == 2 ? (*c.in(2)->type().dims)[1] : Dim(0);
  c.supported(hidden.is_constant() && pairs.is_constant() && *pairs.constant() > 0,
              "num_heads is missing: x has {} columns, the tables {}", hidden.to_string(),
              pairs.to_string());
  return *hidden.constant() / (2 * *pairs.constant());
}

}  // namespace

// Inputs x, position ids, cos, sin. A single position is that of the first token.
void import_microsoft_rotary_embedding(NodeImport& c) {
  c.supported(c.integer("is_packed_batching", 0) == 0, "is_packed_batching is {}, expected 0",
              c.integer("is_packed_batching", 0));
  c.supported(c.number("scale", 1.0) == 1.0, "scale is {}, expected 1", c.number("scale", 1.0));
  Attributes heads;
  if (c.rank(0) == 3 && c.integer("num_heads", 0) == 0)
    heads.emplace_back("num_heads", heads_of(c));
  Value* positions = c.in(1);
  if (c.rank(1) == 1) {
    const int64_t rows = c.rank(0) == 3 ? 1 : 2;
    const auto extent = [&](int64_t axis) {
      return c.b("shape", {c.in(0)}, {{"start", axis}, {"end", axis + 1}});
    };
    Value* count = c.b("squeeze", {extent(rows), c.b.integers({0})});
    const ElementType type = c.element(1);
    Value* steps =
        c.b("range", {c.b.scalar(ElementType::i64, 0), count, c.b.scalar(ElementType::i64, 1)});
    Value* row = c.b("add", {c.in(1), c.b.cast(steps, type)});
    Value* shape = c.b("concat", {extent(0), extent(rows)}, {{"axis", int64_t{0}}});
    positions = c.b("expand", {row, shape});
  }
  c.plain({c.in(0), c.in(2), c.in(3), positions}, std::move(heads));
}

}  // namespace lathe::onnx
