// SPDX-License-Identifier: MIT
// Decoders: from tokens back to text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::tokenizer {

// Immutable; may be used by many threads.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the tokens; joined, they are the text.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // Only turns characters of the byte-level alphabet into bytes, and those into text.
  virtual bool is_byte_level() const { return false; }
};

// From the "decoder" element of tokenizer.json; nullptr for null.
std::unique_ptr<Decoder> make_decoder(const nlohmann::json& element,
                                      std::string_view where = "decoder");

// The bytes as UTF-8; every ill-formed stretch becomes U+FFFD, as Rust and Python do it.
std::string to_valid_utf8(std::string_view bytes);
void append_valid_utf8(std::string_view bytes, std::string& out);

}  // namespace lathe::tokenizer
