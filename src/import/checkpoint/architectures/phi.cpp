// SPDX-License-Identifier: MIT
// Phi 1 to 4, and Phi with experts.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_phi(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("layer_norm_eps", 1e-5)};
  s.activation = config.text("hidden_act", "gelu_new");
  s.residual = Residual::parallel;
}

void adapt_phimoe(const Config& config, const Weights& weights, DecoderStyle& s) {
  slide_all_layers(config, weights, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("rms_norm_eps", 1e-5)};
  s.experts.sparse_mixer = true;
  s.experts.normalised = false;
}

const RegisterArchitecture kPhi{
    {.type = "phi",
     .class_name = "PhiForCausalLM",
     .gguf = "phi2",
     .renames = {{"self_attn.dense", "self_attn.o_proj"},
                 {"mlp.fc1", "mlp.up_proj"},
                 {"mlp.fc2", "mlp.down_proj"},
                 {"model.final_layernorm", "model.norm"}},
     .adapt = adapt_phi,
     .defaults = R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
    "hidden_act": "gelu_new", "partial_rotary_factor": 0.5})"}};
const RegisterArchitecture kPhi3{
    {.type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .gguf = "phi3",
     .adapt = slide_all_layers,
     .defaults = R"({"hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
    "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05})"}};
const RegisterArchitecture kPhi4{
    {.type = "phi4_multimodal",
     .class_name = "Phi4MultimodalForCausalLM",
     .adapt = slide_all_layers,
     .defaults = R"({"hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05})"}};
const RegisterArchitecture kPhiMoe{
    {.type = "phimoe",
     .class_name = "PhimoeForCausalLM",
     .gguf = "phimoe",
     .renames = {{"block_sparse_moe.", "mlp."},
                 {".w1.", ".gate_proj."},
                 {".w2.", ".down_proj."},
                 {".w3.", ".up_proj."}},
     .adapt = adapt_phimoe,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "num_local_experts": 16, "num_experts_per_tok": 2, "rope_theta": 1000000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
