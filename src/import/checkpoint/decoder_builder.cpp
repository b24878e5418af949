// SPDX-License-Identifier: MIT
#include "import/checkpoint/decoder_builder.h"

#include "base/error.h"
#include "ir/ops.h"
#include "ops/support/block_format.h"
#include "tensor/convert.h"

namespace lathe::checkpoint {
namespace {

std::string weight_of(std::string_view name) { return fmt::format("{}.weight", name); }

Tensor as_f32(const Tensor& values) {
  if (values.type() == ElementType::f32) return values;
  Tensor out(ElementType::f32, values.dims());
  convert(ElementType::f32, out.data(), values.type(), values.data(), values.count());
  return out;
}

Type f32_type(std::vector<Dim> dims) { return Type::tensor(ElementType::f32, std::move(dims)); }

}  // namespace

Tensor float_tensor(const StoredTensor& stored, std::string_view name) {
  if (stored.quantised != nullptr) return as_f32(stored.quantised->dequantised());
  if (const BlockFormat* format = find_block_format(stored.type)) {
    Tensor out(ElementType::f32, stored.dims);
    dequantise(*format, reinterpret_cast<const uint8_t*>(stored.bytes.data()), out.count(),
               out.as<float>());
    return out;
  }
  const Tensor plain = plain_tensor(stored, name);
  check(is_floating(plain.type()), ErrorKind::invalid_model,
        "tensor '{}' is {}, expected floating-point elements", escape(name), stored.type);
  return as_f32(plain);
}

Tensor float_tensor_of(const Weights& weights, const std::string& name, const Dims& dims) {
  const StoredTensor& stored = weights.get(name);
  check(stored.dims == dims, ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected [{}]",
        escape(name), fmt::join(stored.dims, ", "), fmt::join(dims, ", "));
  return float_tensor(stored, name);
}

DecoderBuilder::DecoderBuilder(const Weights& weights, std::string name, TokenInputs inputs)
    : weights_(weights), program_(std::make_unique<Program>()), builder_(program_->main()) {
  program_->name = std::move(name);
  const auto symbol = [&](std::string_view hint) {
    return Dim(program_->add_symbol(hint, SymbolKind::bound, {0, kUnbounded}));
  };
  Module& main = program_->main();
  if (inputs == TokenInputs::packed) {
    batch_ = Dim(1);
    sequence_ = symbol("tokens");
    tokens_ = main.add_parameter(Type::tensor(ElementType::i64, {batch_, sequence_}), "input_ids");
    bounds_ =
        main.add_parameter(Type::tensor(ElementType::i32, {symbol("bounds")}), "token_bounds");
    return;
  }
  batch_ = symbol("batch");
  if (inputs == TokenInputs::none) return;
  sequence_ = symbol("sequence");
  past_ = symbol("past");
  tokens_ = main.add_parameter(Type::tensor(ElementType::i64, {batch_, sequence_}), "input_ids");
  mask_ = main.add_parameter(Type::tensor(ElementType::i64, {batch_, symbol("total")}),
                             "attention_mask");
}

Value* DecoderBuilder::positions() {
  if (positions_ == nullptr) {
    positions_ = program_->main().add_parameter(Type::tensor(ElementType::i64, {batch_, sequence_}),
                                                "position_ids");
  }
  return positions_;
}

Value* DecoderBuilder::literal(Tensor tensor, const std::string& name) {
  const auto known = literals_.find(name);
  if (known != literals_.end()) return known->second;
  return literals_[name] = builder_.literal(std::move(tensor), name);
}

Value* DecoderBuilder::stored_literal(const StoredTensor& stored, const std::string& name,
                                      const Dims& dims) {
  const auto known = literals_.find(name);
  if (known != literals_.end()) return known->second;
  auto made = std::make_shared<Literal>();
  made->tensor = stored.quantised != nullptr ? stored.quantised->dequantised()
                 : stored.is_blocks()        ? float_tensor(stored, name)
                                             : mapped_tensor(stored, name);
  if (!stored.is_blocks() && made->tensor.data() == stored.bytes.data()) {
    made->file = stored.file;
    made->offset = static_cast<int64_t>(stored.offset);
  }
  if (!dims.empty()) {
    const Tensor& given = made->tensor;
    made->tensor =
        Tensor(given.type(), dims, Tensor::dense_strides(dims), given.data(), given.owner());
  }
  return literals_[name] = builder_.literal(LiteralRef(made), name);
}

Value* DecoderBuilder::embed(std::string_view name, Value* indices) {
  const std::string weight = weight_of(name);
  const StoredTensor& stored = weights_.get(weight);
  check(stored.rank() == 2 && stored.dims[0] > 0, ErrorKind::invalid_model,
        "tensor '{}' has shape [{}], expected 2 axes, the first above 0", escape(weight),
        fmt::join(stored.dims, ", "));
  if (find_block_format(stored.type) != nullptr) {
    // The rows' blocks, as in the file: no copy of a head that has the same weights.
    return builder_(lathe::ops::gather_block_quantized, {blocks_literal(stored, weight), indices},
                    {{"type", stored.type}});
  }
  const PackedLiterals* packed = packed_literals(stored, weight);
  if (packed != nullptr && packed->zeros == nullptr && packed->order == nullptr) {
    // The result has the scales' type: f16 would round it.
    Value* scales = builder_.cast(packed->scales, ElementType::f32);
    return builder_(lathe::ops::gather_block_quantized, {packed->codes, indices, scales},
                    {{"bits", packed->bits}, {"block_size", packed->block}});
  }
  Value* rows = builder_(lathe::ops::gather, {stored_literal(stored, weight), indices},
                         {{"axis", int64_t{0}}});
  return builder_.cast(rows, ElementType::f32);
}

Value* DecoderBuilder::linear(Value* x, const std::string& name, bool transposed) {
  const std::string weight = weight_of(name);
  const StoredTensor& stored = weights_.get(weight);
  transposed = transposed && stored.quantised == nullptr;  // quantisers have outputs by rows
  const Dim& inputs = x->type().dims->back();
  check(stored.rank() == 2 && inputs == Dim(stored.dims[transposed ? 0 : 1]),
        ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected {} {}", escape(weight),
        fmt::join(stored.dims, ", "), inputs.to_string(), transposed ? "rows" : "columns");
  const std::string bias = fmt::format("{}.bias", name);
  const auto with_bias = [&](Value* y) {
    return weights_.has(bias) ? add(y, vector_of(bias, stored.dims[transposed ? 1 : 0])) : y;
  };
  if (const PackedLiterals* packed = transposed ? nullptr : packed_literals(stored, weight)) {
    // The head decides between near tokens: its activations are not quantised.
    const bool head = name == "lm_head" || name == "model.embed_tokens";
    if (packed->order != nullptr) x = reorder(x, packed->order);
    std::vector<Value*> operands = {x, packed->codes, packed->scales};
    if (packed->zeros != nullptr) operands.push_back(packed->zeros);
    return with_bias(builder_(lathe::ops::matmul_n_bits, std::move(operands),
                              {{"k", stored.dims[1]},
                               {"n", stored.dims[0]},
                               {"bits", packed->bits},
                               {"block_size", packed->block},
                               {"compute_type", std::string(head ? "f32" : "int8")}}));
  }
  Value* w = builder_.cast(stored_literal(stored, weight), ElementType::f32);
  if (!transposed) w = builder_.transpose(w, {1, 0});
  return with_bias(builder_(lathe::ops::matmul, {x, w}));
}

Value* DecoderBuilder::linear_of(Value* x, const std::string& name, int64_t outputs) {
  Value* y = linear(x, name);
  check(y->type().dims->back() == Dim(outputs), ErrorKind::invalid_model,
        "tensor '{}' has {} outputs, expected {}", escape(weight_of(name)),
        y->type().dims->back().to_string(), outputs);
  return y;
}

Value* DecoderBuilder::vector(const std::string& name, double more) {
  const StoredTensor& stored = weights_.get(name);
  check(stored.rank() == 1, ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected 1 axis",
        escape(name), fmt::join(stored.dims, ", "));
  const auto known = literals_.find(name);
  if (known != literals_.end()) return known->second;
  Tensor values = float_tensor(stored, name);
  if (more != 0) {
    values = values.clone();
    for (float& value : values.elements<float>()) value += static_cast<float>(more);
  }
  return literal(std::move(values), name);
}

Value* DecoderBuilder::vector_of(const std::string& name, int64_t size, double more) {
  Value* found = vector(name, more);
  check(*found->type().dims == std::vector<Dim>{size}, ErrorKind::invalid_model,
        "tensor '{}' has {} elements, expected {}", escape(name),
        found->type().dims->front().to_string(), size);
  return found;
}

namespace {

// The weights of a norm; ones for models whose norms have none.
Value* scale_of(DecoderBuilder& b, const std::string& name, int64_t size, const NormStyle& style) {
  if (!name.empty() && b.weights().has(weight_of(name))) {
    return b.vector_of(weight_of(name), size, style.plus_one ? 1 : 0);
  }
  Tensor ones(ElementType::f32, {size});
  for (float& one : ones.elements<float>()) one = 1;
  return b.literal(std::move(ones), fmt::format("ones.{}", size));
}

Value* bias_of(DecoderBuilder& b, const std::string& name, int64_t size) {
  const std::string bias = fmt::format("{}.bias", name);
  return b.weights().has(bias) ? b.vector_of(bias, size) : nullptr;
}

}  // namespace

Value* DecoderBuilder::norm(Value* x, const std::string& name, const NormStyle& style) {
  const int64_t size = *x->type().dims->back().constant();
  Value* gamma = scale_of(*this, name, size, style);
  if (style.kind == NormKind::rms) {
    return builder_(lathe::ops::simplified_layer_normalization, {x, gamma},
                    {{"epsilon", style.epsilon}});
  }
  return builder_(lathe::ops::layer_normalization, {x, gamma, bias_of(*this, name, size)},
                  {{"epsilon", style.epsilon}});
}

Value* DecoderBuilder::add_norm(Value*& x, Value* y, const std::string& name,
                                const NormStyle& style) {
  if (y == nullptr) return norm(x, name, style);
  const int64_t size = *x->type().dims->back().constant();
  Value* gamma = scale_of(*this, name, size, style);
  const Attributes epsilon = {{"epsilon", style.epsilon}};
  Instruction* both =
      style.kind == NormKind::rms
          ? builder_.add(lathe::ops::skip_simplified_layer_normalization, {x, y, gamma}, epsilon)
          : builder_.add(lathe::ops::skip_layer_normalization,
                         {x, y, gamma, bias_of(*this, name, size)}, epsilon);
  x = both->result(3);
  return both->result(0);
}

Value* DecoderBuilder::head_norm(Value* x, const std::string& name, int64_t size,
                                 const NormStyle& style) {
  const int64_t columns = *x->type().dims->back().constant();
  NormStyle own = style;
  own.kind = NormKind::rms;
  if (columns == size) return norm(x, name, own);
  Value* heads = reshape(x, {0, 0, columns / size, size});
  return reshape(norm(heads, name, own), {0, 0, columns});
}

// Seqlens of group_query_attention: the mask's ones, minus one; and the mask's length.
void DecoderBuilder::find_lengths() {
  if (key_lengths_ != nullptr) return;
  Value* ones =
      builder_(lathe::ops::reduce_sum, {mask_, builder_.integers({1})}, {{"keep_dims", false}});
  Value* last = builder_(lathe::ops::sub, {ones, builder_.integers({1})});
  key_lengths_ = builder_.cast(last, ElementType::i32);
  Value* size = builder_(lathe::ops::shape, {mask_}, {{"start", int64_t{1}}});
  total_ = builder_.cast(size, ElementType::i32);
}

// LongRoPE: the table of sequences longer than `max_short`, or the other.
Value* DecoderBuilder::choose_table(const Tensor& shorter, const Tensor* longer, int64_t max_short,
                                    const std::string& name) {
  Value* table = literal(shorter, name);
  if (longer == nullptr) return table;
  find_lengths();
  Value* is_long =
      builder_(lathe::ops::greater,
               {total_, builder_.scalar(ElementType::i32, static_cast<double>(max_short))});
  return builder_(lathe::ops::where, {is_long, literal(*longer, name + ".long"), table});
}

const DecoderBuilder::Tables& DecoderBuilder::tables_of(const Rope& rope) {
  const auto known = tables_.find(&rope);
  if (known != tables_.end()) return known->second;
  const std::string number = tables_.empty() ? "" : fmt::format(".{}", tables_.size());
  const RopeTables* longer = rope.long_tables ? &*rope.long_tables : nullptr;
  Tables tables{choose_table(rope.tables.cos, longer == nullptr ? nullptr : &longer->cos,
                             rope.max_short, "cos_cache" + number),
                choose_table(rope.tables.sin, longer == nullptr ? nullptr : &longer->sin,
                             rope.max_short, "sin_cache" + number)};
  return tables_.emplace(&rope, tables).first->second;
}

Value* DecoderBuilder::rotate(Value* x, const Rope& rope, int64_t heads, bool interleaved) {
  const Tables& tables = tables_of(rope);
  const int64_t size = *x->type().dims->back().constant() / heads;
  return builder_(lathe::ops::rotary_embedding, {x, tables.cos, tables.sin, positions()},
                  {{"interleaved", interleaved},
                   {"num_heads", heads},
                   {"rotary_embedding_dim", rope.rotated == size ? int64_t{0} : rope.rotated}});
}

Value* DecoderBuilder::add_input(const std::string& name, std::vector<Dim> dims) {
  return program_->main().add_parameter(f32_type(std::move(dims)), name);
}

void DecoderBuilder::add_result(Value* value, std::string name) {
  results_.push_back(value);
  result_names_.push_back(std::move(name));
}

Value* DecoderBuilder::attention(Value* query, Value* key, Value* value, const AttentionBlock& a) {
  find_lengths();
  const std::vector<Dim> cache = {batch_, a.kv_heads, past_, a.head_size};
  Value* past_key = add_input(fmt::format("past_key_values.{}.key", a.layer), cache);
  Value* past_value = add_input(fmt::format("past_key_values.{}.value", a.layer), cache);
  Value* cos = a.rope == nullptr ? nullptr : tables_of(*a.rope).cos;
  Value* sin = a.rope == nullptr ? nullptr : tables_of(*a.rope).sin;
  std::vector<Value*> operands = {query,        key,    value, past_key, past_value,
                                  key_lengths_, total_, cos,   sin};
  if (a.sinks != nullptr) operands.insert(operands.end(), {nullptr, nullptr, a.sinks});
  while (operands.back() == nullptr) operands.pop_back();
  Instruction* attention =
      builder_.add(lathe::ops::group_query_attention, operands,
                   {{"num_heads", a.heads},
                    {"kv_num_heads", a.kv_heads},
                    {"scale", a.scale},
                    {"softcap", a.softcap},
                    {"do_rotary", a.rope != nullptr},
                    {"rotary_interleaved", a.interleaved},
                    {"local_window_size", a.window > 0 ? a.window : int64_t{-1}}});
  add_result(attention->result(1), fmt::format("present.{}.key", a.layer));
  add_result(attention->result(2), fmt::format("present.{}.value", a.layer));
  return attention->result(0);
}

Value* DecoderBuilder::cross_attention(Value* query, int64_t layer, int64_t heads,
                                       int64_t positions) {
  const int64_t size = *query->type().dims->back().constant() / heads;
  const std::vector<Dim> dims = {batch_, heads, positions, size};
  Value* key = add_input(fmt::format("past_key_cross_{}", layer), dims);
  Value* value = add_input(fmt::format("past_value_cross_{}", layer), dims);
  return builder_(lathe::ops::multi_head_attention, {query, key, value}, {{"num_heads", heads}});
}

Value* DecoderBuilder::packed_attention(Value* query, Value* key, Value* value, int64_t heads) {
  return builder_(lathe::ops::packed_attention, {query, key, value, bounds_},
                  {{"num_heads", heads}});
}

Value* DecoderBuilder::activate(Value* x, const std::string& f) {
  if (f == "silu" || f == "swish") return builder_(lathe::ops::swish, {x});
  if (f == "gelu") return builder_(lathe::ops::gelu, {x});
  if (f == "gelu_new" || f == "gelu_pytorch_tanh" || f == "gelu_fast" || f == "gelu_tanh") {
    return builder_(lathe::ops::gelu, {x}, {{"approximate", std::string("tanh")}});
  }
  if (f == "quick_gelu") return builder_(lathe::ops::swish, {x}, {{"alpha", 1.702}});
  Value* relu = builder_(lathe::ops::relu, {x});
  if (f == "relu") return relu;
  check(f == "relu2", ErrorKind::unsupported,
        "activation '{}' is not supported; known are silu, gelu, gelu_pytorch_tanh, quick_gelu, "
        "relu and relu2",
        escape(f));
  return multiply(relu, relu);
}

Value* DecoderBuilder::glu(Value* gate, Value* up, const std::string& f) {
  if (f == "silu" || f == "swish") return builder_(lathe::ops::swiglu, {gate, up});
  return multiply(activate(gate, f), up);
}

Value* DecoderBuilder::causal_conv(Value* x, const std::string& name, int64_t layer, bool silu) {
  const StoredTensor& stored = weights_.get(weight_of(name));
  const int64_t channels = *x->type().dims->back().constant();
  check(
      stored.rank() == 3 && stored.dims[0] == channels && stored.dims[1] == 1 && stored.dims[2] > 0,
      ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected [{}, 1, length]",
      escape(weight_of(name)), fmt::join(stored.dims, ", "), channels);
  Value* weight = literal(float_tensor(stored, weight_of(name)), weight_of(name));
  Value* past = add_input(fmt::format("past_key_values.{}.conv_state", layer),
                          {batch_, channels, stored.dims[2] - 1});
  Instruction* conv =
      builder_.add(lathe::ops::causal_conv_with_state,
                   {builder_.transpose(x, {0, 2, 1}), weight, bias_of(*this, name, channels), past},
                   {{"activation", std::string(silu ? "silu" : "none")}});
  add_result(conv->result(1), fmt::format("present.{}.conv_state", layer));
  return builder_.transpose(conv->result(0), {0, 2, 1});
}

Value* DecoderBuilder::linear_attention(Value* query, Value* key, Value* value, Value* decay,
                                        Value* beta, int64_t layer, int64_t heads, int64_t kv_heads,
                                        double scale) {
  const int64_t key_size = *query->type().dims->back().constant() / heads;
  const int64_t value_size = *value->type().dims->back().constant() / kv_heads;
  Value* past = add_input(fmt::format("past_key_values.{}.recurrent_state", layer),
                          {batch_, kv_heads, key_size, value_size});
  Instruction* attention =
      builder_.add(lathe::ops::linear_attention, {query, key, value, past, decay, beta},
                   {{"q_num_heads", heads},
                    {"kv_num_heads", kv_heads},
                    {"scale", scale},
                    {"update_rule", std::string("gated_delta")}});
  add_result(attention->result(1), fmt::format("present.{}.recurrent_state", layer));
  return attention->result(0);
}

Value* DecoderBuilder::add(Value* a, Value* b) { return builder_(lathe::ops::add, {a, b}); }
Value* DecoderBuilder::multiply(Value* a, Value* b) { return builder_(lathe::ops::mul, {a, b}); }

Value* DecoderBuilder::scale(Value* x, double factor) {
  return factor == 1 ? x : multiply(x, builder_.scalar(ElementType::f32, factor));
}

Value* DecoderBuilder::softcap(Value* x, double cap) {
  if (cap == 0) return x;
  Value* limit = builder_.scalar(ElementType::f32, cap);
  return multiply(builder_(lathe::ops::tanh, {builder_(lathe::ops::div, {x, limit})}), limit);
}

Value* DecoderBuilder::reshape(Value* x, const std::vector<int64_t>& sizes) {
  return builder_(lathe::ops::reshape, {x, builder_.integers(sizes)});
}

Value* DecoderBuilder::columns(Value* x, int64_t begin, int64_t end) {
  return builder_(lathe::ops::slice, {x, builder_.integers({begin}), builder_.integers({end}),
                                      builder_.integers({-1})});
}

std::unique_ptr<Program> DecoderBuilder::finish(Value* result, std::string name) {
  results_.insert(results_.begin(), result);
  result_names_.insert(result_names_.begin(), std::move(name));
  program_->main().set_results(results_, result_names_);
  return std::move(program_);
}

}  // namespace lathe::checkpoint
