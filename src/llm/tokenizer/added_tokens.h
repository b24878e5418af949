// SPDX-License-Identifier: MIT
// Finds added tokens in a text, before normalisation and the model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/tokenizer/byte_trie.h"
#include "llm/tokenizer/model.h"
#include "llm/tokenizer/normalizer.h"

namespace lathe::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = true;
  bool special = false;
  bool operator==(const AddedToken&) const = default;
};

// A section of a text: an added token with the white space that it strips, or other text.
struct Section {
  Range range;
  uint32_t id = kNoId;  // kNoId: other text
};

class AddedTokens {
 public:
  // A token of the model's vocabulary keeps its id; others get the next free ids.
  void add(const std::vector<AddedToken>& tokens, const Model& model, const Normalizer* normalizer);

  // Adds tokens with the ids of `ids`, which must have all of them.
  void add_with_ids(const std::vector<AddedToken>& tokens, const Vocabulary& ids);

  bool empty() const { return by_id_.empty(); }
  const std::map<uint32_t, AddedToken>& tokens() const { return by_id_; }
  uint32_t find(std::string_view content) const;  // kNoId for an unknown one
  // The token's text for decoding, normalised; nullptr for an unknown id.
  const std::string* decoded(uint32_t id) const;
  bool is_special(std::string_view token) const { return specials_.find(token) != kNoId; }
  bool is_special(uint32_t id) const;

  bool has_normalized() const { return !normalized_.trie.empty(); }
  // Splits `text` at tokens that match the original text (plain) or the normalised text.
  // `skip_special`: special tokens are ordinary text.
  void find_plain(std::string_view text, bool skip_special, std::vector<Section>& sections) const {
    find(plain_, text, skip_special, sections);
  }
  void find_normalized(std::string_view text, bool skip_special,
                       std::vector<Section>& sections) const {
    find(normalized_, text, skip_special, sections);
  }

 private:
  struct Matcher {
    ByteTrie trie;
    std::string first_bytes;  // first bytes of the tokens
    size_t next(std::string_view text, size_t from) const;
  };
  Matcher make_matcher(bool normalized) const;
  void find(const Matcher& matcher, std::string_view text, bool skip_special,
            std::vector<Section>& sections) const;

  std::map<uint32_t, AddedToken> by_id_;
  Vocabulary ids_;
  std::unordered_map<uint32_t, std::string>
      normalized_forms_;  // only forms that differ from the content
  Vocabulary specials_;   // contents; a token remains special
  Matcher plain_, normalized_;
};

}  // namespace lathe::tokenizer
