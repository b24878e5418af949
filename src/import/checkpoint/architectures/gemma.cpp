// SPDX-License-Identifier: MIT
// Gemma 1 to 4: scaled embeddings, scales of norms stored minus one (until 3).
#include <cmath>

#include "base/error.h"
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_gemma(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm.plus_one = !config.flag("norms_have_one", false);
  s.embedding_scale = std::sqrt(static_cast<double>(static_cast<float>(s.hidden)));
  s.activation = config.text("hidden_activation", "gelu_pytorch_tanh");
  if (config.text("model_type") == "gemma") {
    // "gelu" of old files means the approximation, too.
    s.activation = config.text("hidden_act", "gelu_pytorch_tanh");
    if (s.activation == "gelu") s.activation = "gelu_pytorch_tanh";
  }
  const auto both = config.values().find("use_bidirectional_attention");
  check(both == config.values().end() || (*both != true && *both != "all"), ErrorKind::unsupported,
        "'use_bidirectional_attention' is {}, expected false: decoders attend to earlier tokens",
        both == config.values().end() ? "" : both->dump());
}

void adapt_gemma2(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_gemma(config, weights, s);
  s.residual = Residual::sandwich;
  const LayerStyle& first = s.layers.front();
  auto size = static_cast<double>(first.head_size);
  // The largest Gemma 2 and 3 differ; GGUF files do not state it.
  const size_t largest = config.text("model_type") == "gemma2" ? 46 : 62;
  if (config.flag("gguf", false) && s.layers.size() == largest) {
    size = static_cast<double>(s.hidden) / static_cast<double>(first.heads);
  }
  s.attention_scale = 1 / std::sqrt(config.above_zero("query_pre_attn_scalar", size));
  const auto cap = [&](const char* name) { return config.has(name) ? config.above_zero(name) : 0; };
  s.attention_softcap = cap("attn_logit_softcapping");
  s.logit_softcap = cap("final_logit_softcapping");
  if (config.has("layer_types")) return;
  for (size_t i = 0; i < s.layers.size(); i += 2) {
    s.layers[i].window = config.integer("sliding_window", 4096);
  }
}

// Every sixth layer attends to all tokens; windows have a RoPE of their own.
void adapt_gemma3(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_gemma2(config, weights, s);
  const int64_t pattern = config.count("sliding_window_pattern", 6);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    if (!config.has("layer_types")) {
      const bool full = (static_cast<int64_t>(i) + 1) % pattern == 0;
      s.layers[i].window = full ? 0 : config.integer("sliding_window", 4096);
    }
    s.layers[i].rope_key = s.layers[i].window > 0 ? "sliding_attention" : "full_attention";
  }
}

void adapt_gemma4(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_gemma2(config, weights, s);
  check(config.integer("hidden_size_per_layer_input", 0) == 0 &&
            config.integer("num_kv_shared_layers", 0) == 0,
        ErrorKind::unsupported,
        "embeddings per layer ({}) and layers that share KV caches ({}) are not supported",
        config.integer("hidden_size_per_layer_input", 0),
        config.integer("num_kv_shared_layers", 0));
  s.norm.plus_one = false;
  s.attention_scale = 1;
  s.value_norm = true;
  s.experts.activation = "geglu";
  s.experts.selected = config.integer("top_k_experts", s.experts.selected);
  const Config by_layer = config.object("per_layer_config");
  const bool listed = config.has("per_layer_config");
  const bool shared = config.flag("attention_k_eq_v", false);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    LayerStyle& layer = s.layers[i];
    if (!config.has("layer_types")) {
      layer.window = (i + 1) % 6 == 0 ? 0 : config.integer("sliding_window", 512);
    }
    if (i + 1 == s.layers.size()) layer.window = 0;
    const bool full = layer.window == 0;
    layer.keys_are_values = full && shared;
    if (config.flag("gguf", false)) {
      layer.keys_are_values =
          !weights.has(fmt::format("model.layers.{}.self_attn.v_proj.weight", i));
    }
    layer.rope_key = full ? "full_attention" : "sliding_attention";
    if (listed) {
      // Keys have as many digits as the last layer's.
      const auto digits = std::to_string(s.layers.size() - 1).size();
      const std::string padded = fmt::format("{:0{}}", i, digits);
      const Config own = by_layer.object(by_layer.has(padded) ? padded : std::to_string(i));
      layer.head_size = own.integer("head_dim", layer.head_size);
      layer.kv_heads = own.integer("num_key_value_heads", layer.kv_heads);
    } else if (full) {
      layer.head_size = config.integer("global_head_dim", 512);
      if (shared) layer.kv_heads = config.integer("num_global_key_value_heads", layer.kv_heads);
    }
  }
}

// Values that a configuration may leave out: those of Transformers' classes.
constexpr std::string_view kGemmaDefaults =
    R"({"hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
    "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true})";
constexpr std::string_view kGemma2Defaults =
    R"({"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 4096, "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256})";
constexpr std::string_view kGemma3Defaults =
    R"({"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 4096, "query_pre_attn_scalar": 256, "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0})";
constexpr std::string_view kGemma4Defaults =
    R"({"hidden_size": 2304, "num_hidden_layers": 30, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 512, "hidden_size_per_layer_input": 256,
    "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                         "rope_theta": 1000000.0}}})";
constexpr std::string_view kGemma4UnifiedDefaults =
    R"({"hidden_size": 2304, "num_hidden_layers": 30, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 262144,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 1024,
    "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                         "rope_theta": 1000000.0}}})";

using Renames = std::vector<std::pair<std::string_view, std::string_view>>;
const Renames kText = {{"model.language_model.", "model."},
                       {"language_model.model.", "model."},
                       {"language_model.lm_head.", "lm_head."}};
const Renames kExperts = {{"model.language_model.", "model."}, {".experts.", ".mlp.experts."}};

const RegisterArchitecture kGemma{
    {"gemma", "GemmaForCausalLM", "gemma", {}, adapt_gemma, kGemmaDefaults}};
const RegisterArchitecture kGemma2{
    {"gemma2", "Gemma2ForCausalLM", "gemma2", {}, adapt_gemma2, kGemma2Defaults}};
const RegisterArchitecture kGemma3{
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", kText, adapt_gemma3, kGemma3Defaults}};
const RegisterArchitecture kGemma4{{"gemma4_text", "Gemma4ForConditionalGeneration", "gemma4",
                                    kExperts, adapt_gemma4, kGemma4Defaults}};
const RegisterArchitecture kGemma4Unified{{"gemma4_unified_text",
                                           "Gemma4UnifiedForConditionalGeneration", "", kExperts,
                                           adapt_gemma4, kGemma4UnifiedDefaults}};

}  // namespace
}  // namespace lathe::checkpoint
