// SPDX-License-Identifier: MIT
// Normalisers: what tokenizer.json does to a text before it is split.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string_view>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Immutable after construction; may be used by many threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

// From the "normalizer" element of tokenizer.json; nullptr for null. Fails with InvalidModel naming
// the element (normalizer.normalizers[2].pattern …) for one that is malformed.
std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& element,
                                            std::string_view where = "normalizer");

// The normaliser that a SentencePiece model carries as a table (bytes, not base64; may be empty).
std::unique_ptr<Normalizer> make_precompiled_normalizer(std::string_view charsmap,
                                                        std::string_view where);

}  // namespace lathe::tokenizer
