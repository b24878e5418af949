// SPDX-License-Identifier: MIT
// A configuration together with tensors, as a Hugging Face folder: {"config": {…}, "tensors":
// {"name": ["F32", [6, 4]], …}}. The tensors' elements are zeros, in a file in memory.
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/folder.h"
#include "import/checkpoint/audio_encoder.h"
#include "import/checkpoint/encoder.h"

namespace {

using Json = nlohmann::json;
constexpr int64_t kMostElements = 1 << 15;
constexpr size_t kMostTensors = 256;
// Tables of RoPE have context times head size elements; a real context may have a million.
constexpr int64_t kMostContext = 1024;

std::string safetensors_of(const Json& tensors) {
  Json header = Json::object();
  size_t at = 0;
  if (!tensors.is_object() || tensors.size() > kMostTensors) return "";
  for (const auto& [name, tensor] : tensors.items()) {
    if (!tensor.is_array() || tensor.size() != 2 || !tensor[0].is_string() ||
        !tensor[1].is_array()) {
      return "";
    }
    const auto type = tensor[0].get<std::string>();
    int64_t elements = 1;
    for (const Json& extent : tensor[1]) {
      if (!extent.is_number_integer() || extent < 0 || extent > kMostElements) return "";
      elements *= extent.get<int64_t>();
      if (elements > kMostElements) return "";
    }
    const int64_t bytes = type.ends_with("64")   ? 8
                          : type.ends_with("32") ? 4
                          : type.ends_with("16") ? 2
                                                 : 1;
    const size_t end = at + static_cast<size_t>(elements * bytes);
    header[name] = {{"dtype", type}, {"shape", tensor[1]}, {"data_offsets", {at, end}}};
    at = end;
  }
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text +
         std::string(at, '\0');
}

void import_folder(const lathe::Folder& folder) {
  using namespace lathe::checkpoint;
  if (!is_hf_folder(folder)) return;
  const Checkpoint checkpoint = open_hf_folder(folder);
  if (checkpoint.architecture->encoder) {
    encoder_sizes(checkpoint);
    import_encoder(checkpoint);
    return;
  }
  import_checkpoint(checkpoint);
  if (checkpoint.architecture->speech) import_audio_encoder(checkpoint);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  Json input = Json::parse(data, data + size, nullptr, false);
  if (!input.is_object() || !input.contains("config") || !input.contains("tensors")) return -1;
  Json& given = input["config"];
  if (!given.is_object()) return -1;
  const bool whole = given.contains("text_config");
  for (Json* values : {&given, whole ? &given["text_config"] : &given}) {
    if (!values->is_object()) continue;
    for (const char* name : {"max_position_embeddings", "n_positions", "max_target_positions"}) {
      const auto at = values->find(name);
      if (at == values->end() || (at->is_number() && *at > kMostContext)) {
        (*values)[name] = kMostContext;
      }
    }
  }
  const std::string weights = safetensors_of(input["tensors"]);
  const std::string config = given.dump(-1, ' ', false, Json::error_handler_t::replace);
  MemoryFiles files;
  files["config.json"] = MemoryFile::copy_of(config);
  files["model.safetensors"] = MemoryFile::copy_of(weights);
  try {
    import_folder(Folder("", files));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
