// SPDX-License-Identifier: MIT
// Mistral, and Mixtral, which has experts.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

const RegisterArchitecture kMistral{
    {.type = "mistral",
     .class_name = "MistralForCausalLM",
     .gguf = "mistral3",
     .adapt = slide_all_layers,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "sliding_window": 4096})"}};
const RegisterArchitecture kMixtral{
    {.type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .renames = {{"block_sparse_moe.", "mlp."},
                 {".w1.", ".gate_proj."},
                 {".w2.", ".down_proj."},
                 {".w3.", ".up_proj."}},
     .adapt = slide_all_layers,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1000000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
