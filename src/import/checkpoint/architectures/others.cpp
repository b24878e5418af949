// SPDX-License-Identifier: MIT
// GLM, Mixtral, gpt-oss, LFM2, StarCoder2, GPT-2, Ernie 4.5 and Nemotron.
#include <cmath>

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
  s.experts.alpha = config.above_zero("swiglu_alpha", 1.702);
  s.experts.limit = config.above_zero("swiglu_limit", 7);
  s.experts.beta = 1;
  if (config.has("layer_types")) return;
  for (size_t i = 0; i < s.layers.size(); i += 2) {
    s.layers[i].window = config.integer("sliding_window", 128);
  }
}

void adapt_lfm2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm.epsilon = config.above_zero("norm_eps", 1e-5);
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<int64_t> attention = config.integers("full_attn_idxs");
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const bool attends =
        types.empty() ? !config.has("full_attn_idxs") ||
                            std::ranges::find(attention, static_cast<int64_t>(i)) != attention.end()
                      : types[i] == "full_attention";
    if (!attends) s.layers[i].kind = LayerKind::conv;
  }
}

void adapt_starcoder2(const Config& config, const Weights&, DecoderStyle& s) {
  slide_all_layers(config, s);
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("norm_epsilon", 1e-5)};
  s.activation = config.text("hidden_act", "gelu_pytorch_tanh");
}

// Matrices are [inputs, outputs]; positions are learned.
void adapt_gpt2(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = config.above_zero("layer_norm_epsilon", 1e-5)};
  s.activation = config.text("activation_function", "gelu_new");
  s.transposed = !config.flag("gguf", false);
  s.positions = true;
  const bool scaled = config.flag("scale_attn_weights", true);
  const bool by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    LayerStyle& layer = s.layers[i];
    layer.rope = false;
    layer.kv_heads = layer.heads;
    layer.attention_scale = scaled ? 1 / std::sqrt(static_cast<double>(layer.head_size)) : 1;
    if (by_layer) layer.attention_scale /= static_cast<double>(i + 1);
  }
}

void adapt_ernie(const Config&, const Weights&, DecoderStyle& s) { s.interleaved = true; }

void adapt_nemotron(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {
      .kind = NormKind::layer, .epsilon = config.above_zero("norm_eps", 1e-5), .plus_one = true};
  s.activation = config.text("hidden_act", "relu2");
}

// Values that a configuration may leave out: those of Transformers' classes.
constexpr std::string_view kGlmDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5})";
constexpr std::string_view kGlm4Defaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5})";
constexpr std::string_view kMixtralDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "num_local_experts": 8, "num_experts_per_tok": 2, "rope_theta": 1000000.0})";
constexpr std::string_view kGptOssDefaults =
    R"({"hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "sliding_window": 128, "num_local_experts": 128,
    "num_experts_per_tok": 4, "rope_theta": 150000.0,
    "rope_parameters": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096}})";
constexpr std::string_view kLfm2Defaults =
    R"({"hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 128000,
    "tie_word_embeddings": true, "rope_theta": 1000000.0})";
constexpr std::string_view kStarCoder2Defaults =
    R"({"hidden_size": 3072, "num_hidden_layers": 30, "num_attention_heads": 24,
    "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true})";
constexpr std::string_view kGpt2Defaults =
    R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "max_position_embeddings": 1024, "tie_word_embeddings": true})";
constexpr std::string_view kErnieDefaults =
    R"({"hidden_size": 1024, "num_hidden_layers": 18, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "rope_theta": 500000.0})";
constexpr std::string_view kNemotronDefaults =
    R"({"hidden_size": 6144, "num_hidden_layers": 32, "num_attention_heads": 48,
    "max_position_embeddings": 4096, "hidden_act": "relu2",
    "partial_rotary_factor": 0.5})";

const RegisterArchitecture kGlm{{"glm", "GlmForCausalLM", "chatglm", {}, adapt_glm, kGlmDefaults}};
const RegisterArchitecture kGlm4{{"glm4",
                                  "Glm4ForCausalLM",
                                  "glm4",
                                  {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                                   {"post_self_attn_layernorm", "post_attention_layernorm"},
                                   {"post_mlp_layernorm", "post_feedforward_layernorm"}},
                                  adapt_glm4,
                                  kGlm4Defaults}};
const RegisterArchitecture kMixtral{{"mixtral",
                                     "MixtralForCausalLM",
                                     "",
                                     {{"block_sparse_moe.", "mlp."},
                                      {".w1.", ".gate_proj."},
                                      {".w2.", ".down_proj."},
                                      {".w3.", ".up_proj."}},
                                     adapt_mixtral,
                                     kMixtralDefaults}};
const RegisterArchitecture kGptOss{
    {"gpt_oss", "GptOssForCausalLM", "gpt-oss", {}, adapt_gpt_oss, kGptOssDefaults}};
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
                                  adapt_lfm2,
                                  kLfm2Defaults}};
const RegisterArchitecture kStarCoder2{
    {"starcoder2",
     "Starcoder2ForCausalLM",
     "starcoder2",
     {{"mlp.c_fc", "mlp.up_proj"}, {"mlp.c_proj", "mlp.down_proj"}},
     adapt_starcoder2,
     kStarCoder2Defaults}};
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
                                  adapt_gpt2,
                                  kGpt2Defaults}};
const RegisterArchitecture kErnie{
    {"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", {}, adapt_ernie, kErnieDefaults}};
const RegisterArchitecture kNemotron{
    {"nemotron", "NemotronForCausalLM", "nemotron", {}, adapt_nemotron, kNemotronDefaults}};

}  // namespace
}  // namespace lathe::checkpoint
