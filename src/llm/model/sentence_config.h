// SPDX-License-Identifier: MIT
// How a folder of Sentence Transformers makes an embedding of a text: modules.json and the files
// that it names, config_sentence_transformers.json.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/folder.h"

namespace lathe::llm {

enum class Pooling : uint8_t { cls, max, mean, mean_sqrt_length, weighted_mean, last_token };

// A dense layer after pooling: `folder` has model.safetensors with linear.weight.
struct DenseModule {
  std::string folder;
  int64_t inputs = 0;
  int64_t outputs = 0;
  std::string activation;  // "tanh"; empty: none
};

struct SentenceConfig {
  std::string transformer;                      // subfolder of the encoder; empty: the folder
  std::vector<Pooling> pooling{Pooling::mean};  // concatenated
  bool pools_prompt = true;                     // its tokens are pooled, too
  std::vector<DenseModule> dense;               // in order
  bool normalise = false;                       // to length 1, at the end
  int64_t max_tokens = 0;                       // of a text; 0: as the encoder has it
  bool lower_case = false;                      // texts are tokenised in lower case
  std::map<std::string, std::string> prompts;   // by name
  std::string default_prompt;                   // a name; empty: none
};

// InvalidModel for files that contradict each other, Unsupported for modules of other types.
SentenceConfig read_sentence_config(const Folder& folder);
// `type` as llama.cpp numbers it. Unsupported for none and for rankers.
Pooling gguf_pooling(int64_t type);

}  // namespace lathe::llm
