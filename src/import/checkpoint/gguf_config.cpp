// SPDX-License-Identifier: MIT
#include "import/checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostLayerValues = 4096;  // of an array

// Keys below "ARCHITECTURE.", and their names in config.json.
constexpr std::pair<std::string_view, const char*> kKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    {"attention.clamp_kqv", "clip_qkv"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logits_scaling"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.state_size", "linear_key_head_dim"},
    {"ssm.inner_size", "linear_value_width"},
    {"vocab_size", "vocab_size"},
    {"pooling_type", "pooling_type"},
};

// Architectures whose files hold queries and keys in the order of neighbouring RoPE pairs.
constexpr std::string_view kInterleaved[] = {"llama",   "mistral3", "granite",   "granitehybrid",
                                             "olmo",    "smollm3",  "internlm2", "ernie4_5",
                                             "chatglm", "glm4"};

template <size_t N>
bool contains(const std::string_view (&list)[N], std::string_view value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

void read_rope(const GgufFile& gguf, const std::string& prefix, int64_t head_size, Json& config) {
  const auto number = [&](std::string_view key) {
    return gguf.number(fmt::format("{}rope.{}", prefix, key));
  };
  Json rope = {{"rope_type", "default"}, {"rope_theta", number("freq_base").value_or(10000)}};
  const std::string scaling(gguf.text(prefix + "rope.scaling.type").value_or("linear"));
  double factor = number("scaling.factor").value_or(number("scale_linear").value_or(1));
  if (factor == 0) factor = 1;  // writers that leave it open
  if (scaling == "linear") {
    rope["rope_type"] = "linear";
    rope["factor"] = factor;
  } else if (scaling == "yarn") {
    rope["rope_type"] = "yarn";
    rope["factor"] = factor;
    for (const auto& [key, name] : {std::pair{"scaling.yarn_beta_fast", "beta_fast"},
                                    {"scaling.yarn_beta_slow", "beta_slow"}}) {
      if (const auto value = number(key)) rope[name] = *value;
    }
    // gpt-oss was trained without rounding the bounds.
    rope["truncate"] = prefix != "gpt-oss.";
    if (const auto value = number("scaling.attn_factor")) {
      rope["attention_factor"] = *value * (1 + 0.1 * std::log(std::max(factor, 1.0)));
    }
  } else {
    check(scaling == "none" || scaling == "longrope", ErrorKind::unsupported,
          "'{}rope.scaling.type' is '{}', expected none, linear, yarn or longrope", prefix,
          escape(scaling));
  }
  if (const auto old = number("scaling.original_context_length")) {
    rope["original_max_position_embeddings"] = *old;
  }
  if (const auto value = number("scaling.attn_factor"); value && scaling != "yarn") {
    rope["attention_factor"] = *value;
  }
  const double rotated = number("dimension_count").value_or(static_cast<double>(head_size));
  if (head_size > 0) {
    rope["partial_rotary_factor"] = std::min(rotated / static_cast<double>(head_size), 1.0);
  }
  if (config["model_type"] == "gemma3_text" || config["model_type"] == "gemma4_text") {
    Json own = rope;
    own["rope_type"] = "default";
    own["rope_theta"] = number("freq_base_swa").value_or(10000);
    const auto size = gguf.number(prefix + "attention.key_length_swa");
    if (const auto part = number("dimension_count_swa"); part && size && *size > 0) {
      own["partial_rotary_factor"] = std::min(*part / *size, 1.0);
    }
    rope = {{"full_attention", rope}, {"sliding_attention", own}};
  }
  config["rope_parameters"] = rope;
  // Granite marks models without positions in this way.
  if (!gguf.flag(prefix + "rope.scaling.finetuned").value_or(true)) {
    config["position_embedding_type"] = "nope";
  }
}

// What the values are called in the file.
Config::Names keys_of(const std::string& prefix) {
  Config::Names names;
  for (const auto& [key, to] : kKeys) names[to] = prefix + std::string(key);
  const std::string epsilon = prefix + "attention.layer_norm_epsilon";
  for (const char* name : {"norm_epsilon", "layer_norm_epsilon", "norm_eps"}) names[name] = epsilon;
  constexpr std::pair<const char*, const char*> kRope[] = {
      {"rope_theta", "freq_base"},
      {"factor", "scaling.factor"},
      {"beta_fast", "scaling.yarn_beta_fast"},
      {"beta_slow", "scaling.yarn_beta_slow"},
      {"attention_factor", "scaling.attn_factor"},
      {"original_max_position_embeddings", "scaling.original_context_length"},
      {"partial_rotary_factor", "dimension_count"}};
  for (const auto& [name, key] : kRope) {
    for (const char* layers : {"", "full_attention.", "sliding_attention."}) {
      const char* suffix = *layers == 's' ? "_swa" : "";
      names[fmt::format("rope_parameters.{}{}", layers, name)] =
          fmt::format("{}rope.{}{}", prefix, key, suffix);
    }
  }
  return names;
}

// Which layers attend to a window, and Gemma 4's heads, which differ between the two kinds.
void read_layers(const GgufFile& gguf, const std::string& prefix, Json& config) {
  const std::string pattern = prefix + "attention.sliding_window_pattern";
  if (!gguf.is_array(pattern)) return;
  const std::vector<double> slides = gguf.numbers(pattern, kMostLayerValues);
  Json types = Json::array();
  for (const double slide : slides) {
    types.push_back(slide != 0 ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = types;
  if (config["model_type"] != "gemma4_text") return;
  const Config plain(config);
  const int64_t size = plain.integer("head_dim", 0);
  const double own = gguf.number(prefix + "attention.key_length_swa").value_or(size);
  const std::string key = prefix + "attention.head_count_kv";
  const std::vector<double> heads = gguf.is_array(key)
                                        ? gguf.numbers(key, kMostLayerValues)
                                        : std::vector(slides.size(), gguf.number(key).value_or(0));
  check(heads.size() == slides.size(), ErrorKind::invalid_model, "'{}' has {} entries, '{}' {}",
        key, heads.size(), pattern, slides.size());
  Json layers = Json::object();
  for (size_t i = 0; i < slides.size(); ++i) {
    layers[std::to_string(i)] = {{"head_dim", slides[i] != 0 ? own : static_cast<double>(size)},
                                 {"num_key_value_heads", heads[i]}};
  }
  config["per_layer_config"] = layers;
  config["num_key_value_heads"] = 1;
}

// Values by several names, and those that no key holds.
void complete(const GgufFile& gguf, const std::string& prefix, Json& config) {
  const std::string type = config["model_type"];
  if (config.contains("layer_norm_eps")) {
    for (const char* name : {"norm_epsilon", "layer_norm_epsilon", "norm_eps"}) {
      config[name] = config["layer_norm_eps"];
    }
  } else if (config.contains("rms_norm_eps")) {
    config["norm_eps"] = config["rms_norm_eps"];
  }
  if (const auto normalised = gguf.flag(prefix + "expert_weights_norm")) {
    config["norm_topk_prob"] = *normalised;
  } else if (type == "qwen3_moe") {
    config["norm_topk_prob"] = true;
  }
  const Config plain(config);
  const int64_t heads = plain.integer("linear_num_value_heads", 0);
  if (heads > 0) config["linear_value_head_dim"] = plain.integer("linear_value_width") / heads;
}

// Control tokens with these texts end a turn or a text, also where no key names them: those of
// Gemma 2 and 3 and of Phi 3.
constexpr std::string_view kEndTexts[] = {"<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",
                                          "<|end|>",       "<|return|>",      "<|call|>",
                                          "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>"};

void add_end_tokens(const GgufFile& gguf, Json& ends) {
  constexpr double kControl = 3;
  constexpr double kUserDefined = 4;
  const std::vector<std::string_view> tokens = gguf.texts("tokenizer.ggml.tokens");
  const std::vector<double> types = gguf.numbers("tokenizer.ggml.token_type");
  // In gpt-oss "<|end|>" ends a message, and another of the same answer may follow.
  const bool has_messages = std::ranges::find(tokens, "<|return|>") != tokens.end();
  for (size_t i = 0; i < std::min(tokens.size(), types.size()); ++i) {
    if ((types[i] != kControl && types[i] != kUserDefined) || !contains(kEndTexts, tokens[i]) ||
        (has_messages && tokens[i] == "<|end|>")) {
      continue;
    }
    if (std::find(ends.begin(), ends.end(), Json(i)) == ends.end()) ends.push_back(i);
  }
}

}  // namespace

Config read_gguf_config(const GgufFile& gguf) {
  const std::string kind(gguf.text("general.type").value_or("model"));
  check(kind == "model", ErrorKind::unsupported,
        "the file is of type '{}' ('general.type'), expected a model", escape(kind));
  const auto name = gguf.text("general.architecture");
  check(name.has_value(), ErrorKind::invalid_model, "the file has no key '{}'",
        "general.architecture");
  check(*name != "clip", ErrorKind::unsupported,
        "the file is an image projector ('general.architecture' is '{}'): open the language model",
        *name);
  const Architecture* architecture = find_gguf_architecture(*name);
  if (architecture == nullptr) {
    std::vector<std::string_view> known;
    for (const Architecture& one : architectures()) {
      if (!one.gguf.empty()) known.push_back(one.gguf);
    }
    fail(ErrorKind::unsupported,
         "the architecture '{}' is not supported in GGUF files{}; known are {}", escape(*name),
         did_you_mean(*name, known), fmt::join(known, ", "));
  }
  const std::string prefix = fmt::format("{}.", *name);
  Json config = {{"model_type", architecture->type}, {"gguf", true}};
  for (const auto& [key, to] : kKeys) {
    const std::string full = prefix + std::string(key);
    if (gguf.is_array(full)) {
      const std::vector<double> values = gguf.numbers(full, kMostLayerValues);
      // Layers without attention have no heads.
      const double most = values.empty() ? 0 : std::ranges::max(values);
      if (config["model_type"] == "gemma4_text" && key == "attention.head_count_kv") continue;
      check(!values.empty() && std::ranges::count(values, most) + std::ranges::count(values, 0) ==
                                   std::ssize(values),
            ErrorKind::unsupported, "'{}' differs from layer to layer", full);
      config[to] = most;
    } else if (const auto value = gguf.number(full)) {
      config[to] = *value;
    }
  }
  check(config.contains("hidden_size") && config.contains("num_attention_heads"),
        ErrorKind::invalid_model,
        "the file has no '{0}embedding_length' or '{0}attention.head_count'", prefix);
  Config plain(config);
  plain.set_origin("", keys_of(prefix));
  const int64_t heads = plain.integer("num_attention_heads");
  const int64_t head_size =
      plain.integer("head_dim", heads == 0 ? 0 : plain.integer("hidden_size") / heads);
  read_rope(gguf, prefix, head_size, config);
  read_layers(gguf, prefix, config);
  config["interleaved_rope"] = contains(kInterleaved, *name);
  config["norms_have_one"] = true;
  check(gguf.number(prefix + "attention.temperature_scale").value_or(0) == 0,
        ErrorKind::unsupported,
        "'{}attention.temperature_scale' is {}, expected 0: queries that are scaled by their "
        "position are not supported",
        prefix, gguf.number(prefix + "attention.temperature_scale").value_or(0));
  complete(gguf, prefix, config);
  for (const auto& [key, to] : {std::pair{"bos", "bos_token_id"}, {"padding", "pad_token_id"}}) {
    if (const auto id = gguf.integer(fmt::format("tokenizer.ggml.{}_token_id", key)))
      config[to] = *id;
  }
  if (!config.contains("vocab_size")) {
    config["vocab_size"] = gguf.texts("tokenizer.ggml.tokens").size();
  }
  Config out(std::move(config));
  out.set_origin("", keys_of(prefix));
  const int64_t vocabulary = out.integer("vocab_size");
  Json ends = Json::array();
  for (const char* end : {"eos", "eot", "eom"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", end);
    const auto id = gguf.integer(key);
    if (!id) continue;
    check(vocabulary == 0 || *id < static_cast<uint64_t>(vocabulary), ErrorKind::invalid_model,
          "'{}' is {}, but the vocabulary has {} tokens", key, *id, vocabulary);
    if (std::find(ends.begin(), ends.end(), Json(*id)) == ends.end()) ends.push_back(*id);
  }
  add_end_tokens(gguf, ends);
  if (!ends.empty()) out.set("eos_token_id", ends);
  return out;
}

}  // namespace lathe::checkpoint
