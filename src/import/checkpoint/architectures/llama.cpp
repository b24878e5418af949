// SPDX-License-Identifier: MIT
// Llama and models with its tensors: Mistral, Granite, SmolLM3, HunYuan, InternLM2, OLMo.
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_llama(const Config&, const Weights&, DecoderStyle&) {}

void adapt_granite(const Config& config, const Weights&, DecoderStyle& s) {
  s.embedding_scale = config.above_zero("embedding_multiplier", 1);
  s.residual_scale = config.above_zero("residual_multiplier", 1);
  s.attention_scale = config.above_zero("attention_multiplier", 1);
  s.logit_scale = 1 / config.above_zero("logits_scaling", 1);
  if (config.text("position_embedding_type", "rope") != "nope") return;
  for (LayerStyle& layer : s.layers) layer.rope = false;
}

// Some layers have no positions.
void adapt_smollm3(const Config& config, const Weights&, DecoderStyle& s) {
  const std::vector<int64_t> rope = config.integers("no_rope_layers");
  const int64_t interval = config.count("no_rope_layer_interval", 4);
  const bool slides = config.flag("use_sliding_window", false);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    s.layers[i].rope =
        i < rope.size() ? rope[i] != 0 : (static_cast<int64_t>(i) + 1) % interval != 0;
    if (!config.has("layer_types") && !s.layers[i].rope) {
      s.layers[i].window = config.integer("sliding_window", 0);
    }
    if (!slides) s.layers[i].window = 0;
  }
}

void adapt_hunyuan(const Config&, const Weights&, DecoderStyle& s) { s.norm_after_rope = true; }

// Layer norms without weights.
void adapt_olmo(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm = {.kind = NormKind::layer, .epsilon = 1e-5};
  s.qkv_clip = config.has("clip_qkv") ? config.above_zero("clip_qkv") : 0;
}

void adapt_olmo2(const Config&, const Weights&, DecoderStyle& s) { s.residual = Residual::post; }

// Values that a configuration may leave out: those of Transformers' classes.
constexpr std::string_view kLlamaDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})";
constexpr std::string_view kMistralDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "sliding_window": 4096})";
constexpr std::string_view kGraniteDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})";
constexpr std::string_view kGraniteHybridDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_local_experts": 8, "num_experts_per_tok": 2,
    "position_embedding_type": "nope"})";
constexpr std::string_view kSmolLm3Defaults =
    R"({"hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
    "num_key_value_heads": 4, "max_position_embeddings": 32768,
    "tie_word_embeddings": true, "rope_theta": 2000000.0})";
constexpr std::string_view kHunyuanDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "rms_norm_eps": 1e-05})";
constexpr std::string_view kOlmoDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})";
constexpr std::string_view kOlmo2Defaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "rms_norm_eps": 1e-05})";

const RegisterArchitecture kLlama{
    {"llama", "LlamaForCausalLM", "llama", {}, adapt_llama, kLlamaDefaults}};
const RegisterArchitecture kMistral{
    {"mistral",
     "MistralForCausalLM",
     "mistral3",
     {{"model.language_model.", "model."},
      {"language_model.model.", "model."},
      {"language_model.lm_head.", "lm_head."}},
     [](const Config& config, const Weights&, DecoderStyle& s) { slide_all_layers(config, s); },
     kMistralDefaults}};
const RegisterArchitecture kGranite{
    {"granite", "GraniteForCausalLM", "granite", {}, adapt_granite, kGraniteDefaults}};
const RegisterArchitecture kGraniteHybrid{{"granitemoehybrid",
                                           "GraniteMoeHybridForCausalLM",
                                           "granitehybrid",
                                           {{"shared_mlp.input_linear", "mlp.gate_up_proj"},
                                            {"shared_mlp.output_linear", "mlp.down_proj"}},
                                           adapt_granite,
                                           kGraniteHybridDefaults}};
const RegisterArchitecture kSmolLm3{
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", {}, adapt_smollm3, kSmolLm3Defaults}};
const RegisterArchitecture kHunyuan{{"hunyuan_v1_dense",
                                     "HunYuanDenseV1ForCausalLM",
                                     "hunyuan-dense",
                                     {{"query_layernorm", "q_norm"}, {"key_layernorm", "k_norm"}},
                                     adapt_hunyuan,
                                     kHunyuanDefaults}};
const RegisterArchitecture kInternLm2{{"internlm2",
                                       "InternLM2ForCausalLM",
                                       "internlm2",
                                       {{"model.tok_embeddings", "model.embed_tokens"},
                                        {"attention_norm", "input_layernorm"},
                                        {"ffn_norm", "post_attention_layernorm"},
                                        {"attention.wqkv", "self_attn.grouped_qkv"},
                                        {"attention.wo", "self_attn.o_proj"},
                                        {"feed_forward.w1", "mlp.gate_proj"},
                                        {"feed_forward.w2", "mlp.down_proj"},
                                        {"feed_forward.w3", "mlp.up_proj"},
                                        {"output.weight", "lm_head.weight"}},
                                       adapt_llama}};
const RegisterArchitecture kOlmo{
    {"olmo", "OlmoForCausalLM", "olmo", {}, adapt_olmo, kOlmoDefaults}};
const RegisterArchitecture kOlmo2{
    {"olmo2", "Olmo2ForCausalLM", "olmo2", {}, adapt_olmo2, kOlmo2Defaults}};

}  // namespace
}  // namespace lathe::checkpoint
