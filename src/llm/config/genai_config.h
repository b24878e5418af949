// SPDX-License-Identifier: MIT
// Reads genai_config.json, ONNX Runtime GenAI's description of a model folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "llm/config/model_types.h"
#include "llm/search/search_options.h"

namespace lathe::llm {

struct ProviderChoice {
  std::string name;  // as in the file
  std::map<std::string, std::string> options{};
};

// Session options of ONNX Runtime. Threads and providers are used, other entries ignored.
struct SessionSettings {
  std::optional<int64_t> threads{};
  std::vector<ProviderChoice> providers{};
  std::map<std::string, std::string> entries{};
};

// GenAI's name → the graph's name; "%d" is the layer.
using Names = std::map<std::string, std::string>;

// One ONNX file of the folder.
struct ProgramConfig {
  std::string filename{};
  SessionSettings session{};
  Names inputs{};
  Names outputs{};
};

struct SlidingWindow {
  int64_t window_size = 0;
  std::vector<int64_t> layers{};  // empty: all
};

// A stage of a decoder split into several files.
struct StageConfig {
  std::string name{};
  ProgramConfig program{};
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::map<std::string, std::string> forwarded{};  // output → input of a later stage
  bool run_on_prompt = true;
  bool run_on_token = true;
  bool is_head = false;
};

struct DecoderConfig : ProgramConfig {
  int64_t hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t num_hidden_layers = 0;
  int64_t head_size = 0;
  std::vector<std::string> layer_types{};
  int64_t conv_cache_size = 0;
  std::optional<SlidingWindow> window{};
  std::vector<StageConfig> pipeline{};
};

struct GenaiConfig {
  std::string type{};
  bool type_is_known = true;  // false: `kind` follows from the structure
  ModelKind kind = ModelKind::decoder;
  std::string tokenizer_folder{};
  int64_t vocab_size = 0;
  int64_t context_length = 0;
  std::vector<int64_t> end_tokens{};
  std::map<std::string, int64_t> tokens{};  // "pad_token_id" and other single tokens
  DecoderConfig decoder{};
  std::optional<DecoderConfig> encoder{};
  std::map<std::string, ProgramConfig> parts{};  // "vision", "speech", "embedding"
  search::SearchOptions search{};
  std::set<std::string, std::less<>> given_search{};  // options set by genai_config.json
  // Unsupported options that generation_config.json sets.
  std::vector<std::string> unsupported{};

  std::optional<int64_t> token(std::string_view name) const;
  // intra_op_num_threads of the first program that sets it; 0: unset.
  int threads() const;
};

// InvalidModel for an unknown key (with the nearest one), a wrong type or a missing value;
// Unsupported for a feature that Lathe lacks. `name` is for messages.
GenaiConfig read_genai_config(std::string_view json, std::string_view name);

// Adds the end tokens of a generation_config.json, and its search options where genai_config.json
// sets none. Lists unsupported sampling methods in `unsupported`; ignores other keys.
void read_generation_config(std::string_view json, std::string_view name, GenaiConfig& config);

}  // namespace lathe::llm
