// SPDX-License-Identifier: MIT
// Phi 1 to 4, and Phi with experts.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_phi(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.number("layer_norm_eps", 1e-5)};
  s.activation = config.text("hidden_act", "gelu_new");
  s.residual = Residual::parallel;
}

void adapt_phi3(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
}

void adapt_phimoe(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.number("rms_norm_eps", 1e-5)};
  s.experts.sparse_mixer = true;
  s.experts.normalised = false;
}

const RegisterArchitecture kPhi{{"phi",
                                 "PhiForCausalLM",
                                 "phi2",
                                 {{"self_attn.dense", "self_attn.o_proj"},
                                  {"mlp.fc1", "mlp.up_proj"},
                                  {"mlp.fc2", "mlp.down_proj"},
                                  {"model.final_layernorm", "model.norm"},
                                  {"q_layernorm", "q_norm"},
                                  {"k_layernorm", "k_norm"}},
                                 adapt_phi}};
const RegisterArchitecture kPhi3{{"phi3", "Phi3ForCausalLM", "phi3", {}, adapt_phi3}};
const RegisterArchitecture kPhiMoe{{"phimoe",
                                    "PhimoeForCausalLM",
                                    "phimoe",
                                    {{"block_sparse_moe.", "mlp."},
                                     {".w1.", ".gate_proj."},
                                     {".w2.", ".down_proj."},
                                     {".w3.", ".up_proj."}},
                                    adapt_phimoe}};

}  // namespace
}  // namespace lathe::checkpoint
