// SPDX-License-Identifier: MIT
// The architectures that checkpoints may have. Each file of architectures/ registers its own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/checkpoint/decoder.h"

namespace lathe::checkpoint {

// Changes nothing; for encoders, and decoders without a difference.
inline void keep_style(const Config&, const Weights&, DecoderStyle&) {}
// Sets the window of all layers to `sliding_window`; for models without layer_types.
void slide_all_layers(const Config& config, const Weights& weights, DecoderStyle& style);

struct Architecture {
  std::string_view type;        // `model_type` of config.json
  std::string_view class_name;  // of Transformers, for documents
  std::string_view gguf{};      // `general.architecture`; empty: none
  // Changes parts of tensor names to those of decoder.h or encoder.h, in order. Prefixes of the
  // text part of a multimodal model are gone.
  std::vector<std::pair<std::string_view, std::string_view>> renames{};
  // Sets what differs from common_style().
  void (*adapt)(const Config& config, const Weights& weights, DecoderStyle& style) = keep_style;
  // JSON: values that a config.json may leave out, those of Transformers' classes.
  std::string_view defaults = "{}";
  bool encoder = false;  // of texts: no decoder
  bool speech = false;   // an encoder of audio beside the decoder
};

class RegisterArchitecture {
 public:
  explicit RegisterArchitecture(Architecture architecture);
};
// In the order of their types.
const std::vector<Architecture>& architectures();
std::vector<std::string_view> encoder_types();
// Unsupported, with the nearest name, for others.
const Architecture& find_architecture(std::string_view type);
// "{}" for unknown types.
std::string_view config_defaults(std::string_view type);
const Architecture* find_gguf_architecture(std::string_view name);

}  // namespace lathe::checkpoint
