// SPDX-License-Identifier: MIT
// The names of GGUF's tensors, as its converters write them, in the form of decoder.h.
#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "import/checkpoint/architectures.h"
#include "import/checkpoint/decoder_builder.h"
#include "import/checkpoint/gguf_config.h"

namespace lathe::checkpoint {
namespace {

struct GgufName {
  std::string_view from;
  std::string_view to;
  std::string_view types = "";  // of the models that have it, between spaces; empty: all others
};

// Whole names, or the part before ".weight" and ".bias".
constexpr GgufName kModelNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"position_embd", "model.embed_positions"},
    {"output_norm", "model.norm"},
    {"token_embd_norm", "model.norm", " lfm2 "},
    {"output", "lm_head"},
};

constexpr std::string_view kSandwiches = " gemma2 gemma3_text gemma4_text glm4 ";
constexpr std::string_view kGemma4 = " gemma4_text ";

// Names that follow "blk.N." in a layer.
constexpr GgufName kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "linear_attn.in_proj_qkv", " qwen3_5_text qwen3_5_moe_text "},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm", kSandwiches},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"layer_output_scale.weight", "layer_scalar"},
    // Gates and values in one matrix.
    {"ffn_up", "mlp.gate_up_proj", " phi3 glm glm4 "},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "router.proj", kGemma4},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_proj"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_proj_bias"},
    {"ffn_up_exps.weight", "mlp.experts.up_proj"},
    {"ffn_up_exps.bias", "mlp.experts.up_proj_bias"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
};

// Encoders of texts, in the form of encoder.h.
constexpr GgufName kEncoderNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
};
constexpr GgufName kEncoderLayerNames[] = {
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
    {"layer_output_norm", "output.LayerNorm"},
};

struct GgufNames {
  std::span<const GgufName> model;
  std::span<const GgufName> layer;
  std::string_view prefix;  // of layers
};

GgufNames names_of(const std::string& type) {
  if (find_architecture(type).encoder) return {kEncoderNames, kEncoderLayerNames, "encoder.layer"};
  return {kModelNames, kLayerNames, "model.layers"};
}

// nullopt for a name that is not in the table.
std::optional<std::string> canonical(std::span<const GgufName> table, std::string_view name,
                                     const std::string& type) {
  for (const GgufName& one : table) {
    const bool mine =
        one.types.empty() || one.types.find(fmt::format(" {} ", type)) != std::string_view::npos;
    if (!mine || !name.starts_with(one.from)) continue;
    const std::string_view rest = name.substr(one.from.size());
    if (rest.empty() || rest == ".weight" || rest == ".bias")
      return fmt::format("{}{}", one.to, rest);
  }
  return std::nullopt;
}

// Older files have each expert's matrices apart: "ffn_up.3.weight".
std::optional<std::string> expert_name(std::string_view name) {
  for (const auto& [from, to] :
       {std::pair<std::string_view, std::string_view>{"ffn_gate.", "gate_proj"},
        {"ffn_up.", "up_proj"},
        {"ffn_down.", "down_proj"}}) {
    if (!name.starts_with(from) || !name.ends_with(".weight")) continue;
    const std::string_view number =
        name.substr(from.size(), name.size() - from.size() - std::string_view(".weight").size());
    const bool digits = number.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && !number.empty()) return fmt::format("mlp.experts.{}.{}.weight", number, to);
  }
  return std::nullopt;
}

std::vector<double> values_of(const StoredTensor& tensor, const std::string& name) {
  const Tensor values = float_tensor(tensor, name);
  return {values.as<float>(), values.as<float>() + values.count()};
}

}  // namespace

void rename_gguf_tensors(Config& config, Weights& weights) {
  const std::string type = config.text("model_type");
  std::vector<std::pair<std::string, std::string>> renames;
  std::map<std::string, const char*> recurrent;  // kinds, by the layers' numbers
  const GgufNames names = names_of(type);
  for (const auto& [name, tensor] : weights.all()) {
    constexpr std::string_view kLayer = "blk.";
    const size_t dot = name.find('.', kLayer.size());
    if (!name.starts_with(kLayer) || dot == std::string::npos) {
      if (const auto to = canonical(names.model, name, type)) renames.emplace_back(name, *to);
      continue;
    }
    const std::string number = name.substr(kLayer.size(), dot - kLayer.size());
    const std::string_view rest = std::string_view(name).substr(dot + 1);
    auto to = canonical(names.layer, rest, type);
    if (!to) to = expert_name(rest);
    if (!to) continue;
    renames.emplace_back(name, fmt::format("{}.{}.{}", names.prefix, number, *to));
    if (rest == "shortconv.conv.weight") recurrent[number] = "conv";
    if (rest == "ssm_a") {
      recurrent[number] = type == "granitemoehybrid" ? "mamba" : "linear_attention";
    }
  }
  if (!recurrent.empty()) {
    const int64_t layers = config.integer("num_hidden_layers", 0);
    check(layers <= kMaxLayers, ErrorKind::invalid_model, "{} layers, expected at most {}", layers,
          kMaxLayers);
    std::vector<std::string> kinds;
    for (int64_t i = 0; i < layers; ++i) {
      const auto kind = recurrent.find(std::to_string(i));
      kinds.emplace_back(kind == recurrent.end() ? "full_attention" : kind->second);
    }
    config.set("layer_types", kinds);
  }
  for (const auto& [from, to] : renames) {
    weights.rename(from, to);
    // Converters drop axes of one element.
    const StoredTensor& stored = weights.all().find(to)->second;
    const bool conv = to.ends_with("conv.conv.weight") || to.ends_with("conv1d.weight");
    if (conv && stored.rank() == 2) weights.set_dims(to, {stored.dims[0], 1, stored.dims[1]});
    if (to.ends_with("shared_expert_gate.weight") && stored.rank() == 1) {
      weights.set_dims(to, {1, stored.dims[0]});
    }
  }
}

std::vector<double> read_rope_factors(Config& config, const Weights& weights) {
  const StoredTensor* longer = weights.find("rope_factors_long.weight");
  const StoredTensor* shorter = weights.find("rope_factors_short.weight");
  if (longer != nullptr && shorter != nullptr) {
    nlohmann::json rope = config.object("rope_parameters").values();
    rope["rope_type"] = "longrope";
    rope["long_factor"] = values_of(*longer, "rope_factors_long.weight");
    rope["short_factor"] = values_of(*shorter, "rope_factors_short.weight");
    config.set("rope_parameters", rope);
  }
  const StoredTensor* divisors = weights.find("rope_freqs.weight");
  return divisors == nullptr ? std::vector<double>{} : values_of(*divisors, "rope_freqs.weight");
}

}  // namespace lathe::checkpoint
