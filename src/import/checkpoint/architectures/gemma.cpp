// SPDX-License-Identifier: MIT
// Gemma 1 to 3: scaled embeddings, scales of norms stored minus one.
#include <cmath>

#include "base/error.h"
#include "import/checkpoint/architectures/gemma.h"

namespace lathe::checkpoint {

void adapt_every_gemma(const Config& config, DecoderStyle& s) {
  s.embedding_scale = std::sqrt(static_cast<double>(static_cast<float>(s.hidden)));
  s.activation = config.text("hidden_activation", "gelu_pytorch_tanh");
  if (config.text("model_type") == "gemma") {
    // "gelu" of old files means the approximation, too.
    s.activation = config.text("hidden_act", "gelu_pytorch_tanh");
    if (s.activation == "gelu") s.activation = "gelu_pytorch_tanh";
  }
  const auto both = config.values().find("use_bidirectional_attention");
  check(both == config.values().end() || (*both != true && *both != "all"), ErrorKind::unsupported,
        "'use_bidirectional_attention' is {}, expected false: decoders attend to earlier tokens",
        both == config.values().end() ? "" : both->dump());
  const auto cap = [&](const char* name) { return config.has(name) ? config.above_zero(name) : 0; };
  s.attention_softcap = cap("attn_logit_softcapping");
  s.logit_softcap = cap("final_logit_softcapping");
}

namespace {

void adapt_gemma(const Config& config, const Weights&, DecoderStyle& s) {
  adapt_every_gemma(config, s);
  s.norm.plus_one = !config.flag("norms_have_one", false);
}

void adapt_gemma2(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_gemma(config, weights, s);
  s.residual = Residual::sandwich;
  const LayerStyle& first = s.layers.front();
  auto size = static_cast<double>(first.head_size);
  // The largest Gemma 2 and 3 differ; GGUF files do not state it.
  const size_t largest = config.text("model_type") == "gemma2" ? 46 : 62;
  if (config.flag("gguf", false) && s.layers.size() == largest) {
    size = static_cast<double>(s.hidden) / static_cast<double>(first.heads);
  }
  s.attention_scale = 1 / std::sqrt(config.above_zero("query_pre_attn_scalar", size));
  if (config.has("layer_types")) return;
  for (size_t i = 0; i < s.layers.size(); i += 2) {
    s.layers[i].window = config.integer("sliding_window", 4096);
  }
}

// Every sixth layer attends to all tokens; windows have a RoPE of their own.
void adapt_gemma3(const Config& config, const Weights& weights, DecoderStyle& s) {
  adapt_gemma2(config, weights, s);
  const int64_t pattern = config.count("sliding_window_pattern", 6);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    if (!config.has("layer_types")) {
      const bool full = (static_cast<int64_t>(i) + 1) % pattern == 0;
      s.layers[i].window = full ? 0 : config.integer("sliding_window", 4096);
    }
    s.layers[i].rope_key = s.layers[i].window > 0 ? "sliding_attention" : "full_attention";
  }
}

const RegisterArchitecture kGemma{
    {.type = "gemma",
     .class_name = "GemmaForCausalLM",
     .gguf = "gemma",
     .adapt = adapt_gemma,
     .defaults = R"({"hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
    "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true})"}};
const RegisterArchitecture kGemma2{
    {.type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .adapt = adapt_gemma2,
     .defaults = R"({"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 4096, "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256})"}};
const RegisterArchitecture kGemma3{
    {.type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .adapt = adapt_gemma3,
     .defaults = R"({"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
    "sliding_window": 4096, "query_pre_attn_scalar": 256, "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0})"}};

}  // namespace
}  // namespace lathe::checkpoint
