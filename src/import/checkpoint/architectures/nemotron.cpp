// SPDX-License-Identifier: MIT
// Nemotron: squared ReLU; scales of norms are stored minus one.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_nemotron(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {
      .kind = NormKind::layer, .epsilon = config.above_zero("norm_eps", 1e-5), .plus_one = true};
  s.activation = config.text("hidden_act", "relu2");
}

const RegisterArchitecture kNemotron{
    {.type = "nemotron",
     .class_name = "NemotronForCausalLM",
     .gguf = "nemotron",
     .adapt = adapt_nemotron,
     .defaults = R"({"hidden_size": 6144, "num_hidden_layers": 32, "num_attention_heads": 48,
    "max_position_embeddings": 4096, "hidden_act": "relu2",
    "partial_rotary_factor": 0.5})"}};

}  // namespace
}  // namespace lathe::checkpoint
