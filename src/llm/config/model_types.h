// SPDX-License-Identifier: MIT
// The model types that a genai_config.json may name.
#pragma once

#include <span>
#include <string_view>

namespace lathe::llm {

enum class ModelKind : uint8_t {
  decoder,          // tokens in, logits out
  encoder_decoder,  // text or features in, then a decoder with cross attention
  multimodal,       // a decoder over embeddings of several programs
  speech,           // transducers and the like
};

struct ModelType {
  std::string_view name;
  ModelKind kind;
};

std::span<const ModelType> model_types();
// Null if there is none of that name.
const ModelType* find_model_type(std::string_view name);

}  // namespace lathe::llm
