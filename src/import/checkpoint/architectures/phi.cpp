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

void adapt_phi3(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
}

void adapt_phimoe(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("rms_norm_eps", 1e-5)};
  s.experts.sparse_mixer = true;
  s.experts.normalised = false;
}

// Values that a configuration may leave out: those of Transformers' classes.
constexpr std::string_view kPhiDefaults =
    R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
    "hidden_act": "gelu_new", "partial_rotary_factor": 0.5})";
constexpr std::string_view kPhi3Defaults =
    R"({"hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
    "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05})";
constexpr std::string_view kPhi4Defaults =
    R"({"hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-05})";
constexpr std::string_view kPhiMoeDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "num_local_experts": 16, "num_experts_per_tok": 2, "rope_theta": 1000000.0})";

const RegisterArchitecture kPhi{{"phi",
                                 "PhiForCausalLM",
                                 "phi2",
                                 {{"self_attn.dense", "self_attn.o_proj"},
                                  {"mlp.fc1", "mlp.up_proj"},
                                  {"mlp.fc2", "mlp.down_proj"},
                                  {"model.final_layernorm", "model.norm"}},
                                 adapt_phi,
                                 kPhiDefaults}};
const RegisterArchitecture kPhi3{
    {"phi3", "Phi3ForCausalLM", "phi3", {}, adapt_phi3, kPhi3Defaults}};
const RegisterArchitecture kPhi4{
    {"phi4_multimodal", "Phi4MultimodalForCausalLM", "", {}, adapt_phi3, kPhi4Defaults}};
const RegisterArchitecture kPhiMoe{{"phimoe",
                                    "PhimoeForCausalLM",
                                    "phimoe",
                                    {{"block_sparse_moe.", "mlp."},
                                     {".w1.", ".gate_proj."},
                                     {".w2.", ".down_proj."},
                                     {".w3.", ".up_proj."}},
                                    adapt_phimoe,
                                    kPhiMoeDefaults}};

}  // namespace
}  // namespace lathe::checkpoint
