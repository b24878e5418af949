// SPDX-License-Identifier: MIT
// Normalisers edit a text before it is split.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string_view>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

// Reads the "normalizer" element of tokenizer.json; nullptr for null. InvalidModel names the wrong
// element: normalizer.normalizers[2].pattern.
std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& element,
                                            std::string_view where = "normalizer");

// The normaliser of a SentencePiece table (bytes, not base64; may be empty).
std::unique_ptr<Normalizer> make_precompiled_normalizer(std::string_view charsmap,
                                                        std::string_view where);

}  // namespace lathe::tokenizer
