// SPDX-License-Identifier: MIT
// StarCoder2: layer norms, an MLP without gates.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_starcoder2(const Config& config, const Weights& weights, DecoderStyle& s) {
  slide_all_layers(config, weights, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("norm_epsilon", 1e-5)};
  s.activation = config.text("hidden_act", "gelu_pytorch_tanh");
}

const RegisterArchitecture kStarCoder2{
    {.type = "starcoder2",
     .class_name = "Starcoder2ForCausalLM",
     .gguf = "starcoder2",
     .renames = {{"mlp.c_fc", "mlp.up_proj"}, {"mlp.c_proj", "mlp.down_proj"}},
     .adapt = adapt_starcoder2,
     .defaults = R"({"hidden_size": 3072, "num_hidden_layers": 30, "num_attention_heads": 24,
    "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true})"}};

}  // namespace
}  // namespace lathe::checkpoint
