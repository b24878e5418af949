// SPDX-License-Identifier: MIT
// Decoding token by token, and strings at which generation stops.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/tokenizer.h"

namespace lathe::tokenizer {

// Turns ids into text as they come. What was given out never changes, and no character is given out
// in part. The pieces joined are what decode() makes of all ids, but for runs of byte tokens that
// turn out to be no UTF-8 after some of their characters were given out.
class DecodeStream {
 public:
  explicit DecodeStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

  // The text that `id` completes; often empty.
  std::string step(uint32_t id);
  void step(uint32_t id, std::string& out);  // added to `out`
  // What is still held back; then the stream begins anew.
  std::string finish();

 private:
  void decode(size_t from, std::string& text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::vector<uint32_t> ids_;  // those of the last text given out, and those after it
  std::string prefix_;         // what of ids_ was given out
  size_t prefix_ids_ = 0;      // by how many of them
  // Of one step after another.
  std::string text_, tail_;
  Tokenizer::DecodeBuffers buffers_;
};

// Finds the first of several strings in a text that comes in pieces, wherever these are cut. Of
// strings that end at one place the longest counts.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> strings);

  // Text that is certainly before any stop string, up to the stop string itself once it is found;
  // from then on nothing.
  std::string push(std::string_view text);
  void push(std::string_view text, std::string& out);  // added to `out`
  // The end has come without a stop: what was held back.
  std::string finish();
  // Which string was found.
  std::optional<size_t> found() const { return found_; }
  void reset();

 private:
  struct Entry {
    std::string text;
    std::vector<size_t> failure;  // length of the longest border of each prefix
    size_t matched = 0;
  };
  std::vector<Entry> entries_;
  std::string held_;
  std::optional<size_t> found_;
};

}  // namespace lathe::tokenizer
