// SPDX-License-Identifier: MIT
// Ernie 4.5: RoPE of neighbouring pairs.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_ernie(const Config&, const Weights&, DecoderStyle& s) { s.interleaved = true; }

const RegisterArchitecture kErnie{
    {.type = "ernie4_5",
     .class_name = "Ernie4_5ForCausalLM",
     .gguf = "ernie4_5",
     .adapt = adapt_ernie,
     .defaults = R"({"hidden_size": 1024, "num_hidden_layers": 18, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "rope_theta": 500000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
