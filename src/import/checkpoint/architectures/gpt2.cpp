// SPDX-License-Identifier: MIT
// GPT-2: matrices are [inputs, outputs]; positions are learned.
#include <cmath>

#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_gpt2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("layer_norm_epsilon", 1e-5)};
  s.activation = config.text("activation_function", "gelu_new");
  s.transposed = !config.flag("gguf", false);
  s.positions = true;
  const bool scaled = config.flag("scale_attn_weights", true);
  const bool by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    LayerStyle& layer = s.layers[i];
    layer.rope = false;
    layer.kv_heads = layer.heads;
    layer.attention_scale = scaled ? 1 / std::sqrt(static_cast<double>(layer.head_size)) : 1;
    if (by_layer) layer.attention_scale /= static_cast<double>(i + 1);
  }
}

const RegisterArchitecture kGpt2{
    {.type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .gguf = "gpt2",
     .renames = {{"transformer.", "model."},
                 {"model.wte", "model.embed_tokens"},
                 {"model.wpe", "model.embed_positions"},
                 {"model.h.", "model.layers."},
                 {"attn.c_attn", "self_attn.qkv_proj"},
                 {"attn.c_proj", "self_attn.o_proj"},
                 {"mlp.c_fc", "mlp.up_proj"},
                 {"mlp.c_proj", "mlp.down_proj"},
                 {"ln_1", "input_layernorm"},
                 {"ln_2", "post_attention_layernorm"},
                 {"model.ln_f", "model.norm"}},
     .adapt = adapt_gpt2,
     .defaults = R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "max_position_embeddings": 1024, "tie_word_embeddings": true})"}};

}  // namespace
}  // namespace lathe::checkpoint
