// SPDX-License-Identifier: MIT
// Post-processors add special tokens around a text or a pair, and trim offsets.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "llm/tokenizer/encoding.h"

namespace lathe::tokenizer {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // The number of tokens that apply() adds.
  virtual size_t added_tokens(bool is_pair) const = 0;
  // Replaces one encoding per text by the list that post_process() concatenates.
  virtual void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const = 0;
};

// Reads the "post_processor" element of tokenizer.json; nullptr for null.
std::unique_ptr<PostProcessor> make_post_processor(const nlohmann::json& element,
                                                   std::string_view where = "post_processor");

// Adds the tokens `before` and `after` (ids and texts) around a text, for formats without
// post-processors.
std::unique_ptr<PostProcessor> make_surround(std::vector<std::pair<uint32_t, std::string>> before,
                                             std::vector<std::pair<uint32_t, std::string>> after);

// Combines one or two texts into one encoding; `processor` may be null.
Encoding post_process(const PostProcessor* processor, Encoding first, Encoding* second,
                      bool add_special_tokens);

}  // namespace lathe::tokenizer
