// SPDX-License-Identifier: MIT
// Qwen 2, 3 and 3.5, dense and with experts, and the text parts of those for images. All three
// positions of a text's token are equal: M-RoPE is RoPE.
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

// Transformers has one class of values for both.
constexpr std::string_view kQwen2VlDefaults =
    R"({"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
    "sliding_window": 4096, "max_window_layers": 80, "rope_theta": 1000000.0})";

const RegisterArchitecture kQwen2{
    {.type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .gguf = "qwen2",
     .adapt = adapt_qwen,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28})"}};
const RegisterArchitecture kQwen3{
    {.type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .gguf = "qwen3",
     .adapt = adapt_qwen,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28})"}};
const RegisterArchitecture kQwen2Moe{
    {.type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .gguf = "qwen2moe",
     .adapt = adapt_qwen_moe,
     .defaults = R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "max_position_embeddings": 32768,
    "sliding_window": 4096, "max_window_layers": 28, "num_local_experts": 60,
    "num_experts_per_tok": 4})"}};
const RegisterArchitecture kQwen3Moe{
    {.type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .gguf = "qwen3moe",
     .adapt = adapt_qwen_moe,
     .defaults = R"({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "sliding_window": 4096,
    "num_local_experts": 128, "num_experts_per_tok": 8})"}};
const RegisterArchitecture kQwen2Vl{{.type = "qwen2_vl_text",
                                     .class_name = "Qwen2VLForConditionalGeneration",
                                     .gguf = "qwen2vl",
                                     .adapt = adapt_qwen,
                                     .defaults = kQwen2VlDefaults}};
const RegisterArchitecture kQwen25Vl{{.type = "qwen2_5_vl_text",
                                      .class_name = "Qwen2_5_VLForConditionalGeneration",
                                      .adapt = adapt_qwen,
                                      .defaults = kQwen2VlDefaults}};
const RegisterArchitecture kQwen3Vl{
    {.type = "qwen3_vl_text",
     .class_name = "Qwen3VLForConditionalGeneration",
     .gguf = "qwen3vl",
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 128000,
    "rope_theta": 500000.0})"}};
const RegisterArchitecture kQwen35{
    {.type = "qwen3_5_text",
     .class_name = "Qwen3_5ForConditionalGeneration",
     .gguf = "qwen35",
     .adapt = adapt_qwen3_5,
     .defaults = R"({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 32768,
    "partial_rotary_factor": 0.25})"}};
const RegisterArchitecture kQwen35Moe{
    {.type = "qwen3_5_moe_text",
     .class_name = "Qwen3_5MoeForConditionalGeneration",
     .gguf = "qwen35moe",
     .adapt = adapt_qwen3_5,
     .defaults = R"({"hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
    "num_local_experts": 256, "num_experts_per_tok": 8, "partial_rotary_factor": 0.25})"}};

}  // namespace
}  // namespace lathe::checkpoint
