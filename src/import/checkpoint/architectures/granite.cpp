// SPDX-License-Identifier: MIT
// Granite, dense and with experts: factors of embeddings, layers and logits.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_granite(const Config& config, const Weights&, DecoderStyle& s) {
  s.embedding_scale = config.above_zero("embedding_multiplier", 1);
  s.residual_scale = config.above_zero("residual_multiplier", 1);
  s.attention_scale = config.above_zero("attention_multiplier", 1);
  s.logit_scale = 1 / config.above_zero("logits_scaling", 1);
  if (config.text("position_embedding_type", "rope") != "nope") return;
  for (LayerStyle& layer : s.layers) layer.rope = false;
}

const RegisterArchitecture kGranite{
    {.type = "granite",
     .class_name = "GraniteForCausalLM",
     .gguf = "granite",
     .adapt = adapt_granite,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})"}};
const RegisterArchitecture kGraniteHybrid{
    {.type = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .gguf = "granitehybrid",
     .renames = {{"shared_mlp.input_linear", "mlp.gate_up_proj"},
                 {"shared_mlp.output_linear", "mlp.down_proj"}},
     .adapt = adapt_granite,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_local_experts": 8, "num_experts_per_tok": 2,
    "position_embedding_type": "nope"})"}};

}  // namespace
}  // namespace lathe::checkpoint
