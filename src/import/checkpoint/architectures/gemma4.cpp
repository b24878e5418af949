// SPDX-License-Identifier: MIT
// Gemma 4: heads and keys differ between layers with and without a window; norms of values.
#include "base/error.h"
#include "import/checkpoint/architectures/gemma.h"

namespace lathe::checkpoint {
namespace {

void adapt_gemma4(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_every_gemma(config, s);
  check(config.integer("hidden_size_per_layer_input", 0) == 0 &&
            config.integer("num_kv_shared_layers", 0) == 0,
        ErrorKind::unsupported,
        "embeddings per layer ({}) and layers that share KV caches ({}) are not supported",
        config.integer("hidden_size_per_layer_input", 0),
        config.integer("num_kv_shared_layers", 0));
  s.residual = Residual::sandwich;
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

const RegisterArchitecture kGemma4{
    {.type = "gemma4_text",
     .class_name = "Gemma4ForConditionalGeneration",
     .gguf = "gemma4",
     .renames = {{".experts.", ".mlp.experts."}},
     .adapt = adapt_gemma4,
     .defaults = R"({"hidden_size": 2304, "num_hidden_layers": 30, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 512, "hidden_size_per_layer_input": 256,
    "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                         "rope_theta": 1000000.0}}})"}};
const RegisterArchitecture kGemma4Unified{
    {.type = "gemma4_unified_text",
     .class_name = "Gemma4UnifiedForConditionalGeneration",
     .renames = {{".experts.", ".mlp.experts."}},
     .adapt = adapt_gemma4,
     .defaults = R"({"hidden_size": 2304, "num_hidden_layers": 30, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 262144,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 1024,
    "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                         "rope_theta": 1000000.0}}})"}};

}  // namespace
}  // namespace lathe::checkpoint
