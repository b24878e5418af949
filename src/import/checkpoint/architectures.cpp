// SPDX-License-Identifier: MIT
#include "import/checkpoint/architectures.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::checkpoint {
namespace {

std::vector<Architecture>& all() {
  static std::vector<Architecture> list;
  return list;
}

}  // namespace

RegisterArchitecture::RegisterArchitecture(Architecture architecture) {
  all().push_back(std::move(architecture));
  std::ranges::sort(all(), {}, &Architecture::type);
}

const std::vector<Architecture>& architectures() { return all(); }

std::vector<std::string_view> encoder_types() {
  std::vector<std::string_view> types;
  for (const Architecture& one : all()) {
    if (one.encoder) types.push_back(one.type);
  }
  return types;
}

const Architecture& find_architecture(std::string_view type) {
  check(!type.empty(), ErrorKind::invalid_model, "'{}' is missing", "model_type");
  std::vector<std::string_view> names;
  for (const Architecture& one : all()) {
    if (one.type == type) return one;
    names.push_back(one.type);
  }
  fail(ErrorKind::unsupported, "the architecture '{}' is not supported{}; known are {}",
       escape(type), did_you_mean(type, names), fmt::join(names, ", "));
}

std::string_view config_defaults(std::string_view type) {
  const auto at = std::ranges::find(all(), type, &Architecture::type);
  return at == all().end() ? "{}" : at->defaults;
}

const Architecture* find_gguf_architecture(std::string_view name) {
  const auto at = std::ranges::find_if(
      all(), [&](const Architecture& one) { return !name.empty() && one.gguf == name; });
  return at == all().end() ? nullptr : &*at;
}

void slide_all_layers(const Config& config, const Weights&, DecoderStyle& style) {
  if (config.has("layer_types")) return;
  for (LayerStyle& layer : style.layers) layer.window = config.integer("sliding_window", 0);
}

}  // namespace lathe::checkpoint
