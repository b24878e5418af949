// SPDX-License-Identifier: MIT
// A configuration together with tensors, as a Hugging Face folder: {"config": {…}, "tensors":
// {"name": ["F32", [6, 4]], …}}. The tensors' elements are zeros, in a file in memory.
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/error.h"
#include "base/folder.h"
#include "import/checkpoint/audio_encoder.h"
#include "import/checkpoint/encoder.h"
#include "tests/fuzz/input_limit.h"

namespace {

using Json = nlohmann::json;
constexpr int64_t kMostElements = 1 << 15;
constexpr size_t kMostTensors = 256;
// Tables of RoPE have context times head size elements and take most of the time: one input of
// kClamped keeps a longer context.
constexpr int64_t kMostContext = 1024;
constexpr size_t kClamped = 16;

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

void clamp_context(Json& given) {
  for (Json* values : {&given, given.contains("text_config") ? &given["text_config"] : &given}) {
    if (!values->is_object()) continue;
    for (const char* name : {"max_position_embeddings", "n_positions", "max_target_positions"}) {
      const auto at = values->find(name);
      if (at == values->end() || (at->is_number() && *at > kMostContext)) {
        (*values)[name] = kMostContext;
      }
    }
  }
}

// Values that replace others.
const Json& hostile_values() {
  static const Json values = Json::parse(R"([
    -1, 0, 1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 4096, 4097, 32768, 1048576, 2147483647,
    9223372036854775807, 0.5, -0.25, 1.5, 1e-45, 1e30, 1e300, true, false, null, "", "x", [], {}, [1],
    [2, 4], [4, 2], [32, 1, 32], "F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E8M0", "I64", "I32", "I8",
    "U8", "BOOL", "F4", "default", "linear", "dynamic", "llama3", "yarn", "longrope", "proportional",
    "full_attention", "sliding_attention", "linear_attention", "conv", "gelu", "silu", "relu",
    "gptq", "gptq_v2", "awq", "compressed-tensors", "fp8", "mxfp4", "pack-quantized",
    "int-quantized", "float-quantized"])");
  return values;
}

// Every value in a list or an object, at any depth.
void collect(Json& value, std::vector<Json*>& all) {
  if (!value.is_structured()) return;
  for (Json& item : value) {
    all.push_back(&item);
    collect(item, all);
  }
}

// Replaces a value by a hostile one or by another of the input, or changes the items of a list.
void change(Json& input, std::mt19937& random) {
  std::vector<Json*> all;
  collect(input, all);
  if (all.empty()) return;
  const auto any = [&](size_t count) { return static_cast<size_t>(random()) % count; };
  Json& value = *all[any(all.size())];
  const Json other = *all[any(all.size())];
  switch (any(6)) {
    case 0:
      value = other;
      break;
    case 1:
      if (value.is_object() && !value.empty())
        value.erase(std::next(value.begin(), any(value.size())));
      if (value.is_array() && !value.empty()) value.erase(any(value.size()));
      break;
    case 2:
      if (value.is_array()) value.push_back(other);
      break;
    default:
      value = hostile_values()[any(hostile_values().size())];
  }
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

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Most mutations change values of the JSON, the others its bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::mt19937 random(seed);
  Json input = Json::parse(data, data + size, nullptr, false);
  if (!input.is_object() || random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  change(input, random);
  const std::string text = input.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  Json input = Json::parse(data, data + size, nullptr, false);
  if (!input.is_object() || !input.contains("config") || !input.contains("tensors")) return -1;
  Json& given = input["config"];
  if (!given.is_object()) return -1;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (std::hash<std::string_view>()(text) % kClamped != 0) clamp_context(given);
  const std::string weights = safetensors_of(input["tensors"]);
  const std::string config = given.dump(-1, ' ', false, Json::error_handler_t::replace);
  MemoryFiles files;
  files["config.json"] = MemoryFile::copy_of(config);
  files["model.safetensors"] = MemoryFile::copy_of(weights);
  const InputLimit limit(config.size() + weights.size());
  try {
    import_folder(Folder("", files));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
