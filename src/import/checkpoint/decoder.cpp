// SPDX-License-Identifier: MIT
#include "import/checkpoint/decoder.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ir/ops.h"

namespace lathe::checkpoint {
namespace {

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

class DecoderWriter {
 public:
  DecoderWriter(const Config& config, const DecoderStyle& style, const Weights& weights,
                const std::string& name)
      : config_(config), s_(style), weights_(weights), b_(weights, name) {}

  std::unique_ptr<Program> write() {
    Value* x = b_.scale(b_.embed("model.embed_tokens", b_.tokens()), s_.embedding_scale);
    check(x->type().dims->back() == Dim(s_.hidden), ErrorKind::invalid_model,
          "tensor 'model.embed_tokens.weight' has {} columns, but 'hidden_size' is {}",
          x->type().dims->back().to_string(), s_.hidden);
    if (s_.positions) x = b_.add(x, b_.embed("model.embed_positions", b_.positions()));
    Value* pending = nullptr;  // to be added to x
    for (size_t i = 0; i < s_.layers.size(); ++i) {
      layer(static_cast<int64_t>(i), x, pending);
    }
    Value* y = b_.add_norm(x, pending, "model.norm", s_.norm);
    const bool own_head = weights_.has("lm_head.weight") && !s_.tied;
    Value* logits = b_.linear(y, own_head ? "lm_head" : "model.embed_tokens");
    weights_.check_used(s_.ignored, config_.text("model_type"));
    return b_.finish(b_.softcap(b_.scale(logits, s_.logit_scale), s_.logit_softcap));
  }

 private:
  void layer(int64_t i, Value*& x, Value*& pending) {
    const std::string p = layer_prefix(i);
    if (s_.residual == Residual::post) {
      const auto after = [&](Value* y, const char* name) {
        x = b_.add(x, b_.norm(y, p + name, s_.norm));
      };
      after(mix(i, x), "post_attention_layernorm");
      after(mlp(p, x, x), "post_feedforward_layernorm");
      return;
    }
    Value* h = b_.add_norm(x, pending, p + "input_layernorm", s_.norm);
    if (s_.residual == Residual::parallel) {
      pending = b_.add(mix(i, h), mlp(p, h, x));
      return;
    }
    const bool sandwich = s_.residual == Residual::sandwich;
    Value* y = mix(i, h);
    if (sandwich) y = b_.norm(y, p + "post_attention_layernorm", s_.norm);
    y = b_.scale(y, s_.residual_scale);
    if (s_.encoded > 0) {
      h = b_.add_norm(x, y, p + "cross_attn_layernorm", s_.norm);
      y = cross_attention(i, h);
    }
    h = b_.add_norm(x, y, p + (sandwich ? "pre_feedforward_layernorm" : "post_attention_layernorm"),
                    s_.norm);
    y = mlp(p, h, x);
    if (sandwich) y = b_.norm(y, p + "post_feedforward_layernorm", s_.norm);
    pending = b_.scale(y, s_.residual_scale);
    if (weights_.has(p + "layer_scalar")) {
      x = b_.multiply(b_.add(x, pending), b_.vector(p + "layer_scalar"));
      pending = nullptr;
    }
  }

  Value* mix(int64_t i, Value* h) {
    switch (s_.layers[static_cast<size_t>(i)].kind) {
      case LayerKind::conv:
        return conv(i, h);
      case LayerKind::linear_attention:
        return linear_attention(i, h);
      default:
        return attention(i, h);
    }
  }

  const Rope* rope_of(int64_t i, const LayerStyle& layer) {
    if (!layer.rope) return nullptr;
    const std::string key = fmt::format("{} {}", layer.rope_key, layer.head_size);
    const auto known = ropes_.find(key);
    if (known != ropes_.end()) return &known->second;
    rope_elements_ += layer.head_size;
    const int64_t most = 3 * s_.widest_head;  // two kinds of layers have tables of their own
    check(rope_elements_ <= most, ErrorKind::invalid_model,
          "layer {} has heads of {} elements ('head_dim'): with those of other sizes before, {} "
          "elements have tables of RoPE, expected at most {}",
          i, layer.head_size, rope_elements_, most);
    Config parameters = config_.object("rope_parameters");
    if (!layer.rope_key.empty()) parameters = parameters.object(layer.rope_key);
    // A file's divisors are those of layers that attend to all tokens.
    const bool slides = layer.rope_key == "sliding_attention";
    Rope rope = make_rope(parameters, layer.head_size, s_.stated_context, s_.context,
                          slides ? std::vector<double>() : s_.rope_divisors);
    return &ropes_.emplace(key, std::move(rope)).first->second;
  }

  // Norms of queries or keys: per head, or over the whole width.
  Value* qk_norm(Value* x, const std::string& name, int64_t size) {
    const StoredTensor* weight = weights_.find(name + ".weight");
    if (weight == nullptr || weight->rank() != 1) return x;
    return weight->dims[0] == size ? b_.head_norm(x, name, size, s_.norm)
                                   : b_.norm(x, name, s_.norm);
  }

  Value* attention(int64_t i, Value* h) {
    const LayerStyle& layer = s_.layers[static_cast<size_t>(i)];
    const std::string p = layer_prefix(i) + "self_attn.";
    const int64_t size = layer.head_size;
    const int64_t q_columns = layer.heads * size;
    const int64_t kv_columns = layer.kv_heads * size;
    Value *q = nullptr, *k = nullptr, *v = nullptr, *gate = nullptr;
    if (weights_.has(p + "qkv_proj.weight")) {
      Value* all = b_.linear(h, p + "qkv_proj", s_.transposed);
      check_columns(all, q_columns + 2 * kv_columns, p + "qkv_proj");
      q = b_.columns(all, 0, q_columns);
      k = b_.columns(all, q_columns, q_columns + kv_columns);
      v = b_.columns(all, q_columns + kv_columns, q_columns + 2 * kv_columns);
    } else if (weights_.has(p + "grouped_qkv.weight")) {
      // InternLM2: per key head its queries, the key and the value.
      const int64_t queries = q_columns / layer.kv_heads;
      Value* all = b_.linear(h, p + "grouped_qkv");
      check_columns(all, q_columns + 2 * kv_columns, p + "grouped_qkv");
      all = b_.reshape(all, {0, 0, layer.kv_heads, queries + 2 * size});
      q = b_.reshape(b_.columns(all, 0, queries), {0, 0, q_columns});
      k = b_.reshape(b_.columns(all, queries, queries + size), {0, 0, kv_columns});
      v = b_.reshape(b_.columns(all, queries + size, queries + 2 * size), {0, 0, kv_columns});
    } else {
      q = b_.linear(h, p + "q_proj", s_.transposed);
      check_columns(q, q_columns * (s_.gated_attention ? 2 : 1), p + "q_proj");
      if (s_.gated_attention) {
        Value* both = b_.reshape(q, {0, 0, layer.heads, 2 * size});
        gate = b_.reshape(b_.columns(both, size, 2 * size), {0, 0, q_columns});
        q = b_.reshape(b_.columns(both, 0, size), {0, 0, q_columns});
      }
      k = b_.linear(h, p + "k_proj", s_.transposed);
      check_columns(k, kv_columns, p + "k_proj");
      v = layer.keys_are_values ? k : b_.linear(h, p + "v_proj", s_.transposed);
      check_columns(v, kv_columns, p + "v_proj");
    }
    for (Value** one : {&q, &k, &v}) *one = clip(*one);
    const Rope* rope = rope_of(i, layer);
    if (rope != nullptr && s_.norm_after_rope) {
      q = b_.rotate(q, *rope, layer.heads, s_.interleaved);
      k = b_.rotate(k, *rope, layer.kv_heads, s_.interleaved);
      rope = nullptr;
    }
    q = qk_norm(q, p + "q_norm", size);
    k = qk_norm(k, p + "k_norm", size);
    if (s_.value_norm) v = b_.head_norm(v, "", size, s_.norm);
    AttentionBlock block{
        .layer = i,
        .heads = layer.heads,
        .kv_heads = layer.kv_heads,
        .head_size = size,
        .window = layer.window,
        .scale = layer.attention_scale != 0 ? layer.attention_scale : s_.attention_scale,
        .softcap = s_.attention_softcap,
        .rope = rope,
        .interleaved = s_.interleaved};
    if (weights_.has(p + "sinks")) block.sinks = b_.vector(p + "sinks");
    Value* y = b_.attention(q, k, v, block);
    if (gate != nullptr) y = b_.multiply(y, b_.ops()(ops::sigmoid, {gate}));
    return b_.linear(y, p + "o_proj", s_.transposed);
  }

  // To the keys and values that the encoder computes once.
  Value* cross_attention(int64_t i, Value* h) {
    const LayerStyle& layer = s_.layers[static_cast<size_t>(i)];
    const std::string p = layer_prefix(i) + "cross_attn.";
    Value* q = b_.linear(h, p + "q_proj");
    check_columns(q, layer.heads * layer.head_size, p + "q_proj");
    return b_.linear(b_.cross_attention(q, i, layer.heads, s_.encoded), p + "o_proj");
  }

  Value* clip(Value* x) {
    if (s_.qkv_clip == 0) return x;
    Value* most = b_.ops().scalar(ElementType::f32, s_.qkv_clip);
    Value* least = b_.ops().scalar(ElementType::f32, -s_.qkv_clip);
    return b_.ops()(ops::clip, {x, least, most});
  }

  static void check_columns(const Value* x, int64_t expected, const std::string& name,
                            const char* why = " by the number and size of the heads") {
    check(x->type().dims->back() == Dim(expected), ErrorKind::invalid_model,
          "tensor '{}.weight' has {} outputs, expected {}{}", escape(name),
          x->type().dims->back().to_string(), expected, why);
  }

  // LFM2's short convolution: C · conv(B · x).
  Value* conv(int64_t i, Value* h) {
    const std::string p = layer_prefix(i) + "conv.";
    Value* all = b_.linear_of(h, p + "in_proj", 3 * s_.hidden);
    const auto part = [&](int64_t n) {
      return b_.columns(all, n * s_.hidden, (n + 1) * s_.hidden);
    };
    Value* y = b_.causal_conv(b_.multiply(part(0), part(2)), p + "conv", i, false);
    return b_.linear(b_.multiply(part(1), y), p + "out_proj");
  }

  // Qwen's gated delta rule.
  Value* linear_attention(int64_t i, Value* h) {
    const std::string p = layer_prefix(i) + "linear_attn.";
    const int64_t heads = config_.integer("linear_num_key_heads");
    const int64_t v_heads = config_.integer("linear_num_value_heads");
    const int64_t size = config_.integer("linear_key_head_dim");
    const int64_t v_size = config_.integer("linear_value_head_dim");
    check(heads > 0 && v_heads > 0 && v_heads % heads == 0 && size > 0 && v_size > 0,
          ErrorKind::invalid_model,
          "'linear_num_value_heads' is {}, expected a multiple of 'linear_num_key_heads', {}",
          v_heads, heads);
    const int64_t keys = heads * size, values = v_heads * v_size;
    Value* mixed = b_.linear(h, p + "in_proj_qkv");
    const int64_t columns = *mixed->type().dims->back().constant();
    check(keys <= columns && values <= columns && 2 * keys + values == columns,
          ErrorKind::invalid_model,
          "tensor '{}in_proj_qkv.weight' has {} outputs, expected those of {} key heads of {} "
          "twice and of {} value heads of {}",
          escape(p), columns, heads, size, v_heads, v_size);
    mixed = b_.causal_conv(mixed, p + "conv1d", i, true);
    const auto unit = [&](Value* x) {
      Value* rows = b_.reshape(x, {0, 0, heads, size});
      // x / sqrt(sum of squares + epsilon), as a norm of mean squares
      Value* sum = b_.ops()(ops::reduce_sum, {b_.multiply(rows, rows), b_.ops().integers({-1})});
      Value* root = b_.ops()(ops::sqrt, {b_.add(sum, b_.ops().scalar(ElementType::f32, 1e-6))});
      rows = b_.ops()(ops::div, {rows, root});
      // Each key head serves consecutive value heads; in GGUF files those in steps of the number of
      // key heads.
      const int64_t repeats = v_heads / heads;
      if (repeats > 1) {
        std::vector<int64_t> order;
        for (int64_t v = 0; v < v_heads; ++v) order.push_back(s_.gguf ? v % heads : v / repeats);
        rows = b_.ops()(ops::gather, {rows, b_.ops().integers(order)}, {{"axis", int64_t{2}}});
      }
      return b_.reshape(rows, {0, 0, v_heads * size});
    };
    Value* q = unit(b_.columns(mixed, 0, keys));
    Value* k = unit(b_.columns(mixed, keys, 2 * keys));
    Value* v = b_.columns(mixed, 2 * keys, columns);
    Tensor decay_scale = float_tensor_of(weights_, p + "A_log", {v_heads}).clone();
    if (!s_.gguf) {
      for (float& value : decay_scale.elements<float>()) value = -std::exp(value);
    }
    Instruction* gates = b_.ops().add(
        ops::linear_attention_gate,
        {b_.linear_of(h, p + "in_proj_a", v_heads), b_.vector_of(p + "dt_bias", v_heads),
         b_.literal(decay_scale, p + "A_log"), b_.linear_of(h, p + "in_proj_b", v_heads)});
    Value* y = b_.linear_attention(q, k, v, gates->result(0), gates->result(1), i, v_heads, v_heads,
                                   1 / std::sqrt(static_cast<double>(size)));
    y = b_.ops()(
        ops::gated_rms_norm,
        {y, b_.vector_of(p + "norm.weight", v_size), b_.linear_of(h, p + "in_proj_z", values)},
        {{"epsilon", s_.norm.epsilon}});
    return b_.linear(y, p + "out_proj");
  }

  // `h` is normalised, `x` the sum of the layers so far.
  Value* mlp(const std::string& p, Value* h, Value* x) {
    const bool expert_layer = weights_.has(p + "mlp.experts.gate_up_proj") ||
                              weights_.has(p + "mlp.experts.gate_proj") ||
                              weights_.has(p + "mlp.experts.0.down_proj.weight");
    if (!expert_layer) return dense(p + "mlp.", h);
    const bool beside = weights_.has(p + "mlp.down_proj.weight");
    if (!beside) return experts(p, h, router(p, h));
    // Gemma 4: experts beside a dense MLP, each between norms of their own.
    Value* y = b_.norm(dense(p + "mlp.", h), p + "post_feedforward_layernorm_1", s_.norm);
    Value* z = b_.norm(x, "", s_.norm);
    z = b_.scale(b_.multiply(z, b_.vector(p + "router.scale")),
                 1 / std::sqrt(static_cast<double>(s_.hidden)));
    z = experts(p, b_.norm(x, p + "pre_feedforward_layernorm_2", s_.norm),
                b_.linear(z, p + "router.proj"));
    return b_.add(y, b_.norm(z, p + "post_feedforward_layernorm_2", s_.norm));
  }

  Value* dense(const std::string& p, Value* h) {
    if (weights_.has(p + "gate_up_proj.weight")) {
      Value* both = b_.linear(h, p + "gate_up_proj");
      const int64_t inner = *both->type().dims->back().constant() / 2;
      check_columns(both, 2 * inner, p + "gate_up_proj", "");
      return b_.linear(
          b_.glu(b_.columns(both, 0, inner), b_.columns(both, inner, 2 * inner), s_.activation),
          p + "down_proj");
    }
    Value* up = b_.linear(h, p + "up_proj", s_.transposed);
    const bool gated = weights_.has(p + "gate_proj.weight");
    Value* y = gated ? b_.glu(b_.linear(h, p + "gate_proj"), up, s_.activation)
                     : b_.activate(up, s_.activation);
    return b_.linear(y, p + "down_proj", s_.transposed);
  }

  Value* router(const std::string& p, Value* h) {
    return b_.linear(h, weights_.has(p + "mlp.router.weight") ? p + "mlp.router" : p + "mlp.gate");
  }

  Value* experts(const std::string& p, Value* h, Value* logits) {
    ExpertsBlock block = s_.experts;
    check(block.experts > 0 && block.experts <= kMaxExperts && block.selected > 0 &&
              block.selected <= block.experts,
          ErrorKind::invalid_model, "'{}' is {} of {} experts, expected at least 1, of at most {}",
          config_.path_of("num_experts_per_tok"), block.selected, block.experts, kMaxExperts);
    const std::string scales = p + "router.per_expert_scale";
    if (weights_.has(scales)) block.scales = b_.vector(scales);
    Value* y = add_experts(b_, block, p + "mlp.experts.", h, logits);
    if (!weights_.has(p + "mlp.shared_expert.down_proj.weight")) return y;
    Value* shared = dense(p + "mlp.shared_expert.", h);
    if (weights_.has(p + "mlp.shared_expert_gate.weight")) {
      Value* gate = b_.ops()(ops::sigmoid, {b_.linear(h, p + "mlp.shared_expert_gate")});
      shared = b_.multiply(shared, gate);
    }
    return b_.add(y, shared);
  }

  const Config& config_;
  const DecoderStyle& s_;
  const Weights& weights_;
  DecoderBuilder b_;
  std::map<std::string, Rope> ropes_;
  int64_t rope_elements_ = 0;  // of heads with tables of their own
};

// By layer_types, or for all layers.
int64_t window_of(const Config& config, const std::vector<std::string>& types, int64_t i) {
  if (types.empty()) return 0;
  return types[static_cast<size_t>(i)] == "sliding_attention" ? config.integer("sliding_window", 0)
                                                              : 0;
}

// A head that differs from the embedding is one of its own, even where the configuration ties them.
bool is_tied(const Config& config, const Weights& weights) {
  const StoredTensor* head = weights.find("lm_head.weight");
  const bool tied = config.flag("tie_word_embeddings", false);
  if (head == nullptr) {
    if (!tied && !config.flag("gguf", false)) {
      fail(ErrorKind::invalid_model, "the model has no tensor '{}', and '{}' is false",
           "lm_head.weight", "tie_word_embeddings");
    }
    return true;
  }
  const StoredTensor* embedding = weights.find("model.embed_tokens.weight");
  return tied && embedding != nullptr && head->type == embedding->type &&
         head->dims == embedding->dims && head->bytes == embedding->bytes &&
         head->quantised == embedding->quantised;
}

}  // namespace

DecoderStyle common_style(const Config& config, const Weights& weights) {
  DecoderStyle s;
  s.hidden = config.integer("hidden_size");
  const int64_t layers = config.integer("num_hidden_layers");
  const int64_t heads = config.integer("num_attention_heads");
  check(s.hidden > 0 && layers > 0 && layers <= kMaxLayers && heads > 0, ErrorKind::invalid_model,
        "'{}' is {}, '{}' {} and '{}' {}: expected positive ones, at most {} layers",
        config.path_of("num_hidden_layers"), layers, config.path_of("num_attention_heads"), heads,
        config.path_of("hidden_size"), s.hidden, kMaxLayers);
  s.stated_context = config.count("max_position_embeddings", 2048);
  const std::vector<std::string> types = config.texts("layer_types");
  check(types.empty() || std::ssize(types) == layers, ErrorKind::invalid_model,
        "'layer_types' has {} entries for {} layers", types.size(), layers);
  for (const std::string& type : types) {
    check(type == "full_attention" || type == "sliding_attention" || type == "attention" ||
              type == "conv" || type == "linear_attention",
          ErrorKind::unsupported, "layers of type '{}' are not supported", escape(type));
  }
  LayerStyle layer;
  layer.heads = heads;
  layer.kv_heads = config.integer("num_key_value_heads", heads);
  layer.head_size = config.integer("head_dim", s.hidden / heads);
  check(layer.kv_heads > 0 && heads % layer.kv_heads == 0 && layer.head_size > 0 &&
            layer.head_size <= 4096,
        ErrorKind::invalid_model,
        "'{}' is {}, expected a multiple of '{}', {}, with heads of 1 to 4096 elements; they have "
        "{}",
        config.path_of("num_attention_heads"), heads, config.path_of("num_key_value_heads"),
        layer.kv_heads, layer.head_size);
  s.widest_head = std::max(layer.head_size, config.integer("global_head_dim", 0));
  const Config by_layer = config.object("per_layer_config");
  for (const auto& [i, own] : by_layer.values().items()) {
    s.widest_head = std::max(s.widest_head, by_layer.object(i).integer("head_dim", 0));
  }
  s.context = std::min(s.stated_context, longest_context(config, s.widest_head, weights.bytes()));
  for (int64_t i = 0; i < layers; ++i) {
    layer.window = window_of(config, types, i);
    s.layers.push_back(layer);
  }
  s.norm.epsilon = config.above_zero("rms_norm_eps", 1e-6);
  s.activation = config.text("hidden_act", config.text("hidden_activation", "silu"));
  s.tied = is_tied(config, weights);
  s.experts.experts = config.integer("num_local_experts", config.integer("num_experts", 0));
  s.experts.selected = config.integer("num_experts_per_tok", 0);
  s.experts.normalised = config.flag("norm_topk_prob", true);
  s.ignored = {".rotary_emb.inv_freq",
               ".attn.bias",
               ".attn.masked_bias",
               "model.visual.",
               "visual.",
               "model.vision_tower.",
               "vision_tower.",
               "multi_modal_projector.",
               "model.multi_modal_projector.",
               "audio_tower.",
               "model.audio_tower.",
               "model.embed_vision.",
               "model.embed_audio.",
               "model.embed_tokens_extend.",
               "mtp."};
  if (s.tied) s.ignored.emplace_back("lm_head.");
  return s;
}

std::unique_ptr<Program> build_decoder(const Config& config, const DecoderStyle& style,
                                       const Weights& weights, const std::string& name) {
  return DecoderWriter(config, style, weights, name).write();
}

}  // namespace lathe::checkpoint
