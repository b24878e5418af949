// SPDX-License-Identifier: MIT
// InternLM2: queries, keys and values in one matrix, by key heads.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

const RegisterArchitecture kInternLm2{{.type = "internlm2",
                                       .class_name = "InternLM2ForCausalLM",
                                       .gguf = "internlm2",
                                       .renames = {{"model.tok_embeddings", "model.embed_tokens"},
                                                   {"attention_norm", "input_layernorm"},
                                                   {"ffn_norm", "post_attention_layernorm"},
                                                   {"attention.wqkv", "self_attn.grouped_qkv"},
                                                   {"attention.wo", "self_attn.o_proj"},
                                                   {"feed_forward.w1", "mlp.gate_proj"},
                                                   {"feed_forward.w2", "mlp.down_proj"},
                                                   {"feed_forward.w3", "mlp.up_proj"},
                                                   {"output.weight", "lm_head.weight"}}}};

}  // namespace
}  // namespace lathe::checkpoint
