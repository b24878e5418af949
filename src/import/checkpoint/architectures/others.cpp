// SPDX-License-Identifier: MIT
// GLM, Mixtral, gpt-oss, LFM2, StarCoder2, GPT-2, Ernie 4.5 and Nemotron.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_glm(const Config&, const Weights&, DecoderStyle& s) { s.interleaved = true; }

void adapt_glm4(const Config&, const Weights&, DecoderStyle& s) {
  s.interleaved = true;
  s.residual = Residual::sandwich;
}

void adapt_mixtral(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
}

void adapt_gpt_oss(const Config& config, const Weights&, DecoderStyle& s) {
  s.experts.alpha = config.number("swiglu_alpha", 1.702);
  s.experts.limit = config.number("swiglu_limit", 7);
  s.experts.beta = 1;
  if (config.has("layer_types")) return;
  for (size_t i = 0; i < s.layers.size(); i += 2) {
    s.layers[i].window = config.integer("sliding_window", 128);
  }
}

void adapt_lfm2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm.epsilon = config.number("norm_eps", 1e-5);
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<int64_t> attention = config.integers("full_attn_idxs");
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const bool attends =
        types.empty() ? std::ranges::find(attention, static_cast<int64_t>(i)) != attention.end()
                      : types[i] == "full_attention";
    if (!attends) s.layers[i].kind = LayerKind::conv;
  }
}

void adapt_starcoder2(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.number("norm_epsilon", 1e-5)};
  s.activation = config.text("hidden_act", "gelu_pytorch_tanh");
}

// Matrices are [inputs, outputs]; positions are learned.
void adapt_gpt2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.number("layer_norm_epsilon", 1e-5)};
  s.activation = config.text("activation_function", "gelu_new");
  s.transposed = !config.flag("gguf", false);
  s.tied = true;
  for (LayerStyle& layer : s.layers) {
    layer.rope = false;
    layer.kv_heads = layer.heads;
  }
}

void adapt_ernie(const Config&, const Weights&, DecoderStyle& s) { s.interleaved = true; }

void adapt_nemotron(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.number("norm_eps", 1e-5), .plus_one = true};
  s.activation = config.text("hidden_act", "relu2");
}

const RegisterArchitecture kGlm{{"glm", "GlmForCausalLM", "chatglm", {}, adapt_glm}};
const RegisterArchitecture kGlm4{{"glm4",
                                  "Glm4ForCausalLM",
                                  "glm4",
                                  {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                                   {"post_self_attn_layernorm", "post_attention_layernorm"},
                                   {"post_mlp_layernorm", "post_feedforward_layernorm"}},
                                  adapt_glm4}};
const RegisterArchitecture kMixtral{{"mixtral",
                                     "MixtralForCausalLM",
                                     "",
                                     {{"block_sparse_moe.", "mlp."},
                                      {".w1.", ".gate_proj."},
                                      {".w2.", ".down_proj."},
                                      {".w3.", ".up_proj."}},
                                     adapt_mixtral}};
const RegisterArchitecture kGptOss{{"gpt_oss", "GptOssForCausalLM", "gpt-oss", {}, adapt_gpt_oss}};
const RegisterArchitecture kLfm2{{"lfm2",
                                  "Lfm2ForCausalLM",
                                  "lfm2",
                                  {{"operator_norm", "input_layernorm"},
                                   {"ffn_norm", "post_attention_layernorm"},
                                   {"feed_forward.w1", "mlp.gate_proj"},
                                   {"feed_forward.w2", "mlp.down_proj"},
                                   {"feed_forward.w3", "mlp.up_proj"},
                                   {"q_layernorm", "q_norm"},
                                   {"k_layernorm", "k_norm"},
                                   {"self_attn.out_proj", "self_attn.o_proj"},
                                   {"model.embedding_norm", "model.norm"}},
                                  adapt_lfm2}};
const RegisterArchitecture kStarCoder2{
    {"starcoder2",
     "Starcoder2ForCausalLM",
     "starcoder2",
     {{"mlp.c_fc", "mlp.up_proj"}, {"mlp.c_proj", "mlp.down_proj"}},
     adapt_starcoder2}};
const RegisterArchitecture kGpt2{{"gpt2",
                                  "GPT2LMHeadModel",
                                  "gpt2",
                                  {{"transformer.", "model."},
                                   {"model.wte", "model.embed_tokens"},
                                   {"model.wpe", "model.embed_positions"},
                                   {"model.h.", "model.layers."},
                                   {"attn.c_attn", "self_attn.qkv_proj"},
                                   {"attn.c_proj", "self_attn.o_proj"},
                                   {"mlp.c_fc", "mlp.up_proj"},
                                   {"mlp.c_proj", "mlp.down_proj"},
                                   {"ln_1", "input_layernorm"},
                                   {"ln_2", "post_attention_layernorm"},
                                   {"model.ln_f", "model.norm"}},
                                  adapt_gpt2}};
const RegisterArchitecture kErnie{{"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", {}, adapt_ernie}};
const RegisterArchitecture kNemotron{
    {"nemotron", "NemotronForCausalLM", "nemotron", {}, adapt_nemotron}};

}  // namespace
}  // namespace lathe::checkpoint
