// SPDX-License-Identifier: MIT
// Decoders convert tokens to text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::tokenizer {

// Immutable and thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the tokens; their concatenation is the text.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // True if the decoder only maps the byte-level alphabet to bytes and decodes them.
  virtual bool is_byte_level() const { return false; }
};

// Reads the "decoder" element of tokenizer.json; nullptr for null.
std::unique_ptr<Decoder> make_decoder(const nlohmann::json& element,
                                      std::string_view where = "decoder");

// Decodes bytes as UTF-8. Ill-formed sequences become U+FFFD, as in Rust and Python.
std::string to_valid_utf8(std::string_view bytes);
void append_valid_utf8(std::string_view bytes, std::string& out);

}  // namespace lathe::tokenizer
