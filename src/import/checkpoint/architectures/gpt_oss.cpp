// SPDX-License-Identifier: MIT
// gpt-oss: experts with biases, attention sinks.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_gpt_oss(const Config& config, const Weights&, DecoderStyle& s) {
  s.experts.alpha = config.above_zero("swiglu_alpha", 1.702);
  s.experts.limit = config.above_zero("swiglu_limit", 7);
  s.experts.beta = 1;
  if (config.has("layer_types")) return;
  for (size_t i = 0; i < s.layers.size(); i += 2) {
    s.layers[i].window = config.integer("sliding_window", 128);
  }
}

const RegisterArchitecture kGptOss{
    {.type = "gpt_oss",
     .class_name = "GptOssForCausalLM",
     .gguf = "gpt-oss",
     .adapt = adapt_gpt_oss,
     .defaults = R"({"hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "sliding_window": 128, "num_local_experts": 128,
    "num_experts_per_tok": 4, "rope_theta": 150000.0,
    "rope_parameters": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096}})"}};

}  // namespace
}  // namespace lathe::checkpoint
