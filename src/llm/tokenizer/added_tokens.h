// SPDX-License-Identifier: MIT
// Tokens that are found in the text itself, before the model sees it.
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

// A stretch of a text: an added token with the white space that belongs to it, or other text.
struct Section {
  Range range;
  uint32_t id = kNoId;  // kNoId: other text
};

class AddedTokens {
 public:
  // A token that the model knows keeps its id; others get the next free ones.
  void add(const std::vector<AddedToken>& tokens, const Model& model, const Normalizer* normalizer);

  // With ids given from outside; `ids` knows all of them.
  void add_with_ids(const std::vector<AddedToken>& tokens, const Vocabulary& ids);

  bool empty() const { return by_id_.empty(); }
  const std::map<uint32_t, AddedToken>& tokens() const { return by_id_; }
  uint32_t find(std::string_view content) const;  // kNoId if there is none
  // The token as decoding sees it: what the normaliser makes of it; nullptr if there is none.
  const std::string* decoded(uint32_t id) const;
  bool is_special(std::string_view token) const { return specials_.find(token) != kNoId; }
  bool is_special(uint32_t id) const;

  bool has_normalized() const { return !normalized_.trie.empty(); }
  // Cuts `text` where tokens stand that match it as it is, or once it is normalised.
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
    std::string first_bytes;  // that tokens begin with, if they are few
    size_t next(std::string_view text, size_t from) const;
  };
  Matcher make_matcher(bool normalized) const;
  void find(const Matcher& matcher, std::string_view text, bool skip_special,
            std::vector<Section>& sections) const;

  std::map<uint32_t, AddedToken> by_id_;
  Vocabulary ids_;
  std::unordered_map<uint32_t, std::string> normalized_forms_;  // where they differ
  Vocabulary specials_;  // contents; a token once special stays so
  Matcher plain_, normalized_;
};

}  // namespace lathe::tokenizer
