// SPDX-License-Identifier: MIT
// OLMo 1, whose norms have no weights, and 2, whose norms follow attention and MLP.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_olmo(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = 1e-5};
  s.qkv_clip = config.has("clip_qkv") ? config.above_zero("clip_qkv") : 0;
}

void adapt_olmo2(const Config&, const Weights&, DecoderStyle& s) { s.residual = Residual::post; }

const RegisterArchitecture kOlmo{
    {.type = "olmo",
     .class_name = "OlmoForCausalLM",
     .gguf = "olmo",
     .adapt = adapt_olmo,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})"}};
const RegisterArchitecture kOlmo2{
    {.type = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .gguf = "olmo2",
     .adapt = adapt_olmo2,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "rms_norm_eps": 1e-05})"}};

}  // namespace
}  // namespace lathe::checkpoint
