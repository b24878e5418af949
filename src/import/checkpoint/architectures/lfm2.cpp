// SPDX-License-Identifier: MIT
// LFM2: short convolutions between layers of attention.
#include <algorithm>

#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_lfm2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm.epsilon = config.above_zero("norm_eps", 1e-5);
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<int64_t> attention = config.integers("full_attn_idxs");
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const bool attends =
        types.empty() ? !config.has("full_attn_idxs") ||
                            std::ranges::find(attention, static_cast<int64_t>(i)) != attention.end()
                      : types[i] == "full_attention";
    if (!attends) s.layers[i].kind = LayerKind::conv;
  }
}

const RegisterArchitecture kLfm2{
    {.type = "lfm2",
     .class_name = "Lfm2ForCausalLM",
     .gguf = "lfm2",
     .renames = {{"operator_norm", "input_layernorm"},
                 {"ffn_norm", "post_attention_layernorm"},
                 {"feed_forward.w1", "mlp.gate_proj"},
                 {"feed_forward.w2", "mlp.down_proj"},
                 {"feed_forward.w3", "mlp.up_proj"},
                 {"q_layernorm", "q_norm"},
                 {"k_layernorm", "k_norm"},
                 {"self_attn.out_proj", "self_attn.o_proj"},
                 {"model.embedding_norm", "model.norm"}},
     .adapt = adapt_lfm2,
     .defaults = R"({"hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 128000,
    "tie_word_embeddings": true, "rope_theta": 1000000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
