// SPDX-License-Identifier: MIT
// Llama, the plain decoder.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

const RegisterArchitecture kLlama{
    {.type = "llama",
     .class_name = "LlamaForCausalLM",
     .gguf = "llama",
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})"}};

}  // namespace
}  // namespace lathe::checkpoint
