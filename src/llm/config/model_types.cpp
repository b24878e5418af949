// SPDX-License-Identifier: MIT
#include "llm/config/model_types.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace lathe::llm {
namespace {

constexpr ModelKind kD = ModelKind::decoder;
constexpr ModelKind kE = ModelKind::encoder_decoder;
constexpr ModelKind kM = ModelKind::multimodal;
constexpr ModelKind kS = ModelKind::speech;
constexpr auto kTypes = std::to_array<ModelType>({
    // clang-format off
    {"chatglm", kD}, {"decoder", kD}, {"decoder-pipeline", kD}, {"ernie4_5", kD}, {"fara", kM}, {"gemma", kD},
    {"gemma2", kD}, {"gemma3", kM}, {"gemma3_text", kD}, {"gemma4", kM}, {"gemma4_text", kD}, {"gpt2", kD},
    {"gptoss", kD}, {"granite", kD}, {"granitemoehybrid", kD}, {"hunyuandensev1", kD}, {"internlm2", kD},
    {"lfm2", kD}, {"llama", kD}, {"marian-ssru", kE}, {"mistral", kD}, {"mistral3", kM}, {"nemotron", kD},
    {"nemotron_speech", kS}, {"olmo", kD}, {"parakeet_tdt", kS}, {"phi", kD}, {"phi3", kD}, {"phi3small", kD},
    {"phi3v", kM}, {"phi4mm", kM}, {"phimoe", kD}, {"qwen2", kD}, {"qwen2_5_vl", kM}, {"qwen3", kD},
    {"qwen3_5", kM}, {"qwen3_5_moe", kM}, {"qwen3_5_moe_text", kD}, {"qwen3_5_text", kD}, {"qwen3_vl", kM},
    {"smollm3", kD}, {"videochat_flash_qwen", kM}, {"whisper", kE},
    // clang-format on
});

}  // namespace

const ModelType* find_model_type(std::string_view name) {
  const auto* at = std::ranges::find(kTypes, name, &ModelType::name);
  return at == kTypes.end() ? nullptr : at;
}

std::string did_you_mean_type(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelType& known : kTypes) names.push_back(known.name);
  return did_you_mean(name, names);
}

}  // namespace lathe::llm
