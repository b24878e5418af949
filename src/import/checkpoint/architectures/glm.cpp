// SPDX-License-Identifier: MIT
// GLM 4, without and with norms behind attention and MLP: RoPE of neighbouring pairs.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_glm(const Config&, const Weights&, DecoderStyle& s) { s.interleaved = true; }

void adapt_glm4(const Config&, const Weights&, DecoderStyle& s) {
  s.interleaved = true;
  s.residual = Residual::sandwich;
}

const RegisterArchitecture kGlm{
    {.type = "glm",
     .class_name = "GlmForCausalLM",
     .gguf = "chatglm",
     .adapt = adapt_glm,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5})"}};
const RegisterArchitecture kGlm4{
    {.type = "glm4",
     .class_name = "Glm4ForCausalLM",
     .gguf = "glm4",
     .renames = {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                 {"post_self_attn_layernorm", "post_attention_layernorm"},
                 {"post_mlp_layernorm", "post_feedforward_layernorm"}},
     .adapt = adapt_glm4,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5})"}};

}  // namespace
}  // namespace lathe::checkpoint
