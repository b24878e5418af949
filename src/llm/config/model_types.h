// SPDX-License-Identifier: MIT
// Known model types of a genai_config.json.
#pragma once

#include <string>
#include <string_view>

namespace lathe::llm {

enum class ModelKind : uint8_t {
  decoder,          // tokens in, logits out
  encoder_decoder,  // text or features in, then a decoder with cross attention
  multimodal,       // a decoder over embeddings of several programs
  speech,           // transducers
};

struct ModelType {
  std::string_view name;
  ModelKind kind;
};

// Null for unknown names.
const ModelType* find_model_type(std::string_view name);
// " (did you mean 'llama'?)", or "" if no known type is close.
std::string did_you_mean_type(std::string_view name);

}  // namespace lathe::llm
