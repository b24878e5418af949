// SPDX-License-Identifier: MIT
// Qwen 2, 3 and 3.5, dense and with experts.
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
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "linear_attention") s.layers[i].kind = LayerKind::linear_attention;
  }
}

using Renames = std::vector<std::pair<std::string_view, std::string_view>>;
const Renames kText = {{"model.language_model.", "model."}};

const RegisterArchitecture kQwen2{{"qwen2", "Qwen2ForCausalLM", "qwen2", {}, adapt_qwen}};
const RegisterArchitecture kQwen3{{"qwen3", "Qwen3ForCausalLM", "qwen3", {}, adapt_qwen}};
const RegisterArchitecture kQwen2Moe{
    {"qwen2_moe", "Qwen2MoeForCausalLM", "qwen2moe", {}, adapt_qwen_moe}};
const RegisterArchitecture kQwen3Moe{
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", {}, adapt_qwen_moe}};
const RegisterArchitecture kQwen35{
    {"qwen3_5_text", "Qwen3_5ForConditionalGeneration", "qwen35", kText, adapt_qwen3_5}};
const RegisterArchitecture kQwen35Moe{
    {"qwen3_5_moe_text", "Qwen3_5MoeForConditionalGeneration", "qwen35moe", kText, adapt_qwen3_5}};

}  // namespace
}  // namespace lathe::checkpoint
