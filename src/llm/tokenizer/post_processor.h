// SPDX-License-Identifier: MIT
// Post-processors: the special tokens around a text or a pair, and where offsets leave white space
// out.
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
  // How many tokens apply() adds.
  virtual size_t added_tokens(bool is_pair) const = 0;
  // From one encoding per text to a list that is then joined.
  virtual void apply(std::vector<Encoding>& encodings, bool add_special_tokens) const = 0;
};

// From the "post_processor" element of tokenizer.json; nullptr for null.
std::unique_ptr<PostProcessor> make_post_processor(const nlohmann::json& element,
                                                   std::string_view where = "post_processor");

// Puts `before` and `after` (token ids and texts) around a text: what formats without a
// post-processor of their own need.
std::unique_ptr<PostProcessor> make_surround(std::vector<std::pair<uint32_t, std::string>> before,
                                             std::vector<std::pair<uint32_t, std::string>> after);

// One encoding from one or two texts; `processor` may be null.
Encoding post_process(const PostProcessor* processor, Encoding first, Encoding* second,
                      bool add_special_tokens);

}  // namespace lathe::tokenizer
