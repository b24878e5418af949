// SPDX-License-Identifier: MIT
// Decodes token by token and finds stop strings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/tokenizer.h"

namespace lathe::tokenizer {

// Decodes ids incrementally. Emitted text never changes and has whole characters. Its concatenation
// equals decode() of all ids, except for runs of byte tokens that are invalid UTF-8 after emitted
// characters.
class DecodeStream {
 public:
  explicit DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

  // Returns the text that `id` completes; often empty.
  std::string step(uint32_t id);
  void step(uint32_t id, std::string& out);  // appends to `out`
  // Returns the pending text and resets the stream.
  std::string finish();

 private:
  void decode(size_t from, std::string& text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::vector<uint32_t> ids_;  // the context ids, then the pending ids
  std::string prefix_;         // the emitted text of ids_
  size_t prefix_ids_ = 0;      // the number of its ids
  // Buffers reused by steps.
  std::string text_, tail_;
  Tokenizer::DecodeBuffers buffers_;
};

// Finds the first stop string in a text that arrives in pieces. Among strings with the same end the
// longest counts.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings);

  // Returns the text that precedes any stop string. After a stop string is found, returns "".
  std::string push(std::string_view text);
  void push(std::string_view text, std::string& out);  // appends to `out`
  // Returns the pending text at the end of the input.
  std::string finish();
  // The index of the found string.
  std::optional<size_t> found() const { return found_; }
  void reset();

 private:
  struct Entry {
    std::string text;
    std::vector<size_t> failure;  // Knuth-Morris-Pratt failure function
    size_t matched = 0;
  };
  std::vector<Entry> entries_;
  std::string held_;
  std::optional<size_t> found_;
};

}  // namespace lathe::tokenizer
