// SPDX-License-Identifier: MIT
// Qwen 2, 3 and 3.5, dense and with experts, and the text parts of those for images. All three
// positions of a text's token are equal: M-RoPE is RoPE.
#include <algorithm>

#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

void adapt_qwen(const Config& config, const Weights&, DecoderStyle& s) {
  const bool slides = config.flag("use_sliding_window", false);
  const int64_t first = config.integer("max_window_layers", 0);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    if (!config.has("layer_types") && static_cast<int64_t>(i) >= first) {
      s.layers[i].window = config.integer("sliding_window", 0);
    }
    if (!slides) s.layers[i].window = 0;
  }
}

void adapt_qwen_moe(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_qwen(config, weights, s);
  s.experts.normalised = config.flag("norm_topk_prob", false);
}

void adapt_qwen3_5(const Config& config, const Weights&, DecoderStyle& s) {
  s.norm.plus_one = true;
  s.gated_attention = true;
  const std::vector<std::string> types = config.texts("layer_types");
  const auto interval = static_cast<size_t>(config.count("full_attention_interval", 4));
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const bool linear = types.empty() ? (i + 1) % interval != 0 : types[i] == "linear_attention";
    if (linear) s.layers[i].kind = LayerKind::linear_attention;
  }
}

// Values that a configuration may leave out: those of Transformers' classes.
constexpr std::string_view kQwen2Defaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28})";
constexpr std::string_view kQwen3Defaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28})";
constexpr std::string_view kQwen2MoeDefaults =
    R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28, "num_local_experts": 60,
    "num_experts_per_tok": 4})";
constexpr std::string_view kQwen3MoeDefaults =
    R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "sliding_window": 4096,
    "num_local_experts": 128, "num_experts_per_tok": 8})";
constexpr std::string_view kQwen2VlDefaults =
    R"({"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
    "sliding_window": 4096, "max_window_layers": 80, "rope_theta": 1000000.0})";
constexpr std::string_view kQwen3VlDefaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 128000,
    "rope_theta": 500000.0})";
constexpr std::string_view kQwen35Defaults =
    R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 32768,
    "partial_rotary_factor": 0.25})";
constexpr std::string_view kQwen35MoeDefaults =
    R"({"hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
    "num_local_experts": 256, "num_experts_per_tok": 8, "partial_rotary_factor": 0.25})";

using Renames = std::vector<std::pair<std::string_view, std::string_view>>;
const Renames kText = {{"model.language_model.", "model."}};

void adapt_plain(const Config&, const Weights&, DecoderStyle&) {}

const RegisterArchitecture kQwen2{
    {"qwen2", "Qwen2ForCausalLM", "qwen2", {}, adapt_qwen, kQwen2Defaults}};
const RegisterArchitecture kQwen3{
    {"qwen3", "Qwen3ForCausalLM", "qwen3", {}, adapt_qwen, kQwen3Defaults}};
const RegisterArchitecture kQwen2Moe{
    {"qwen2_moe", "Qwen2MoeForCausalLM", "qwen2moe", {}, adapt_qwen_moe, kQwen2MoeDefaults}};
const RegisterArchitecture kQwen3Moe{
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", {}, adapt_qwen_moe, kQwen3MoeDefaults}};
const RegisterArchitecture kQwen2Vl{{"qwen2_vl_text", "Qwen2VLForConditionalGeneration", "qwen2vl",
                                     kText, adapt_qwen, kQwen2VlDefaults}};
const RegisterArchitecture kQwen25Vl{{"qwen2_5_vl_text", "Qwen2_5_VLForConditionalGeneration", "",
                                      kText, adapt_qwen, kQwen2VlDefaults}};
const RegisterArchitecture kQwen3Vl{{"qwen3_vl_text", "Qwen3VLForConditionalGeneration", "qwen3vl",
                                     kText, adapt_plain, kQwen3VlDefaults}};
const RegisterArchitecture kQwen35{{"qwen3_5_text", "Qwen3_5ForConditionalGeneration", "qwen35",
                                    kText, adapt_qwen3_5, kQwen35Defaults}};
const RegisterArchitecture kQwen35Moe{{"qwen3_5_moe_text", "Qwen3_5MoeForConditionalGeneration",
                                       "qwen35moe", kText, adapt_qwen3_5, kQwen35MoeDefaults}};

}  // namespace
}  // namespace lathe::checkpoint
