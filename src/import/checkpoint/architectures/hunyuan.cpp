// SPDX-License-Identifier: MIT
// HunYuan: norms of queries and keys follow RoPE.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_hunyuan(const Config&, const Weights&, DecoderStyle& s) { s.norm_after_rope = true; }

const RegisterArchitecture kHunyuan{
    {.type = "hunyuan_v1_dense",
     .class_name = "HunYuanDenseV1ForCausalLM",
     .gguf = "hunyuan-dense",
     .renames = {{"query_layernorm", "q_norm"}, {"key_layernorm", "k_norm"}},
     .adapt = adapt_hunyuan,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "rms_norm_eps": 1e-05})"}};

}  // namespace
}  // namespace lathe::checkpoint
