// SPDX-License-Identifier: MIT
// SmolLM3: some layers have no positions.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_smollm3(const Config& config, const Weights&, DecoderStyle& s) {
  const std::vector<int64_t> rope = config.integers("no_rope_layers");
  const int64_t interval = config.count("no_rope_layer_interval", 4);
  const bool slides = config.flag("use_sliding_window", false);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    s.layers[i].rope =
        i < rope.size() ? rope[i] != 0 : (static_cast<int64_t>(i) + 1) % interval != 0;
    if (!config.has("layer_types") && !s.layers[i].rope) {
      s.layers[i].window = config.integer("sliding_window", 0);
    }
    if (!slides) s.layers[i].window = 0;
  }
}

const RegisterArchitecture kSmolLm3{
    {.type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .gguf = "smollm3",
     .adapt = adapt_smollm3,
     .defaults = R"({"hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
    "num_key_value_heads": 4, "max_position_embeddings": 32768,
    "tie_word_embeddings": true, "rope_theta": 2000000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
