// SPDX-License-Identifier: MIT
#include "import/checkpoint/gguf_config.h"

#include <array>

#include "base/error.h"
#include "import/checkpoint/architectures.h"
#include "import/checkpoint/decoder_builder.h"

namespace lathe::checkpoint {
namespace {

using Json = nlohmann::json;

// Keys below "ARCHITECTURE.", and their names in config.json.
constexpr std::pair<std::string_view, const char*> kKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"vocab_size", "vocab_size"},
};

// Parts of tensor names, longest first, and their names in decoder.h.
constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_qkv", "self_attn.qkv_proj"},  {"attn_output", "self_attn.o_proj"},
    {"attn_sinks", "self_attn.sinks"},   {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},       {"ffn_norm", "post_attention_layernorm"},
};

// Architectures whose files hold queries and keys in the order of neighbouring RoPE pairs.
constexpr std::string_view kInterleaved[] = {"llama",   "granite",   "olmo",
                                             "smollm3", "internlm2", "ernie4_5"};

template <size_t N>
bool contains(const std::string_view (&list)[N], std::string_view value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

void read_rope(const GgufFile& gguf, const std::string& prefix, int64_t head_size, Json& config) {
  const auto number = [&](std::string_view key) {
    return gguf.number(fmt::format("{}rope.{}", prefix, key));
  };
  Json rope = {{"rope_type", "default"}, {"rope_theta", number("freq_base").value_or(10000)}};
  const std::string scaling(gguf.text(prefix + "rope.scaling.type").value_or("none"));
  const double factor = number("scaling.factor").value_or(number("scale_linear").value_or(1));
  if (scaling == "linear" || (scaling == "none" && factor != 1)) {
    rope["rope_type"] = "linear";
    rope["factor"] = factor;
  } else if (scaling == "yarn") {
    rope["rope_type"] = "yarn";
    rope["factor"] = factor;
    for (const auto& [key, name] :
         {std::pair{"scaling.original_context_length", "original_max_position_embeddings"},
          {"scaling.yarn_beta_fast", "beta_fast"},
          {"scaling.yarn_beta_slow", "beta_slow"},
          {"scaling.attn_factor", "attention_factor"}}) {
      if (const auto value = number(key)) rope[name] = *value;
    }
  } else {
    check(scaling == "none" || scaling == "longrope", ErrorKind::unsupported,
          "'{}rope.scaling.type' is '{}', expected none, linear, yarn or longrope", prefix,
          escape(scaling));
  }
  const double rotated = number("dimension_count").value_or(static_cast<double>(head_size));
  if (head_size > 0) {
    rope["partial_rotary_factor"] = std::min(1.0, rotated / static_cast<double>(head_size));
  }
  config["rope_parameters"] = rope;
}

}  // namespace

Config read_gguf_config(const GgufFile& gguf) {
  const std::string kind(gguf.text("general.type").value_or("model"));
  check(kind == "model", ErrorKind::unsupported,
        "the file is of type '{}' ('general.type'), expected a model", escape(kind));
  const auto name = gguf.text("general.architecture");
  check(name.has_value(), ErrorKind::invalid_model, "the file has no key '{}'",
        "general.architecture");
  check(*name != "clip", ErrorKind::unsupported,
        "the file is an image projector ('general.architecture' is '{}'): open the language model",
        *name);
  const Architecture* architecture = find_gguf_architecture(*name);
  if (architecture == nullptr) {
    std::vector<std::string_view> known;
    for (const Architecture& one : architectures()) {
      if (!one.gguf.empty()) known.push_back(one.gguf);
    }
    fail(ErrorKind::unsupported,
         "the architecture '{}' is not supported in GGUF files{}; known are {}", escape(*name),
         did_you_mean(*name, known), fmt::join(known, ", "));
  }
  const std::string prefix = fmt::format("{}.", *name);
  Json config = {{"model_type", architecture->type}, {"gguf", true}};
  for (const auto& [key, to] : kKeys) {
    const std::string full = prefix + std::string(key);
    if (gguf.is_array(full)) {
      const std::vector<double> values = gguf.numbers(full);
      check(!values.empty() && std::ranges::count(values, values.front()) == std::ssize(values),
            ErrorKind::unsupported, "'{}' differs from layer to layer", full);
      config[to] = values.front();
    } else if (const auto value = gguf.number(full)) {
      config[to] = *value;
    }
  }
  check(config.contains("hidden_size") && config.contains("num_attention_heads"),
        ErrorKind::invalid_model,
        "the file has no '{0}embedding_length' or '{0}attention.head_count'", prefix);
  const Config plain(config);
  const int64_t heads = plain.integer("num_attention_heads");
  const int64_t head_size =
      plain.integer("head_dim", heads == 0 ? 0 : plain.integer("hidden_size") / heads);
  read_rope(gguf, prefix, head_size, config);
  config["interleaved_rope"] = contains(kInterleaved, *name);
  config["norms_have_one"] = true;
  if (config.contains("layer_norm_eps")) config["norm_epsilon"] = config["layer_norm_eps"];
  for (const auto& [key, to] : {std::pair{"bos", "bos_token_id"}, {"padding", "pad_token_id"}}) {
    if (const auto id = gguf.integer(fmt::format("tokenizer.ggml.{}_token_id", key)))
      config[to] = *id;
  }
  Json ends = Json::array();
  for (const char* key : {"eos", "eot", "eom"}) {
    const auto id = gguf.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (id && std::find(ends.begin(), ends.end(), Json(*id)) == ends.end()) ends.push_back(*id);
  }
  if (!ends.empty()) config["eos_token_id"] = ends;
  if (!config.contains("vocab_size")) {
    config["vocab_size"] = gguf.texts("tokenizer.ggml.tokens").size();
  }
  return Config(config);
}

std::vector<double> rename_gguf_tensors(const Config& config, Weights& weights) {
  const std::string type = config.text("model_type");
  const bool gemma = type.starts_with("gemma") && type != "gemma";
  std::vector<std::pair<std::string, std::string>> renames;
  std::vector<double> divisors;
  for (const auto& [name, tensor] : weights.all()) {
    if (name == "rope_freqs.weight") {
      const Tensor values = float_tensor(tensor, name);
      divisors.assign(values.as<float>(), values.as<float>() + values.count());
    }
    const size_t number = std::string_view("blk.").size();
    const size_t dot = name.find('.', number);
    if (name.starts_with("blk.") && dot != std::string::npos) {
      const std::string_view rest = std::string_view(name).substr(dot + 1);
      std::string_view part = rest.substr(0, rest.find('.'));
      std::string to;
      if (gemma && part == "post_attention_norm") to = "post_attention_layernorm";
      if (gemma && part == "ffn_norm") to = "pre_feedforward_layernorm";
      if (part == "post_ffw_norm") to = "post_feedforward_layernorm";
      if (part == "post_attention_norm" && !gemma) to = "post_attention_layernorm";
      // Phi 3 packs gates and values; Phi 2 has neither gates nor a norm before its MLP.
      if (type == "phi3" && part == "ffn_up") to = "mlp.gate_up_proj";
      for (const auto& [from, canonical] : kLayerNames) {
        if (to.empty() && part == from) to = canonical;
      }
      if (to.empty()) continue;
      renames.emplace_back(
          name, fmt::format("model.layers.{}.{}{}", name.substr(number, dot - number), to,
                            rest.substr(part.size())));
    }
  }
  for (const auto& [from, to] : renames) weights.rename(from, to);
  for (const char* part : {"weight", "bias"}) {
    weights.rename(fmt::format("token_embd.{}", part), fmt::format("model.embed_tokens.{}", part));
    weights.rename(fmt::format("output_norm.{}", part), fmt::format("model.norm.{}", part));
    weights.rename(fmt::format("output.{}", part), fmt::format("lm_head.{}", part));
  }
  return divisors;
}

}  // namespace lathe::checkpoint
