// SPDX-License-Identifier: MIT
#include "llm/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr size_t kMaxNormalizedBytes = size_t{16} << 20;

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = unicode::previous(text, text.size());
  return unicode::is_word(unicode::next(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && unicode::is_word(unicode::next(text, at));
}

// The offset at which the white space at the end of text[0, end) begins.
size_t space_before(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = unicode::previous(text, end);
    size_t at = begin;
    if (!unicode::is_space(unicode::next(text, at))) break;
    end = begin;
  }
  return end;
}

size_t space_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t end = at;
    if (!unicode::is_space(unicode::next(text, end))) break;
    at = end;
  }
  return at;
}

}  // namespace

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Model& model,
                      const Normalizer* normalizer) {
  uint64_t next_id = model.size();
  if (!by_id_.empty()) next_id = std::max<uint64_t>(next_id, uint64_t{by_id_.rbegin()->first} + 1);
  size_t normalized_bytes = 0;
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    uint32_t id = find(token.content);
    if (id != kNoId && by_id_.at(id) == token) continue;
    if (id == kNoId) id = model.vocabulary().find(token.content);
    if (id == kNoId) {
      check(next_id <= kMaxId, ErrorKind::invalid_model, "added token '{}' has no free id after {}",
            escape(token.content), next_id - 1);
      id = static_cast<uint32_t>(next_id++);
    }
    if (token.normalized && normalizer != nullptr) {
      AlignedText text(token.content, false);
      normalizer->apply(text);
      normalized_bytes += text.size();
      check(normalized_bytes <= kMaxNormalizedBytes, ErrorKind::invalid_model,
            "the normalizer enlarges the added tokens to more than {} bytes, at '{}'",
            kMaxNormalizedBytes, escape(token.content));
      if (text.view() != token.content) normalized_forms_[id] = text.view();
    }
    ids_.add(token.content, id);
    if (token.special) specials_.add(token.content, id);
    by_id_.insert_or_assign(id, token);
  }
  plain_ = make_matcher(false);
  normalized_ = make_matcher(true);
}

void AddedTokens::add_with_ids(const std::vector<AddedToken>& tokens, const Vocabulary& ids) {
  for (const AddedToken& token : tokens) {
    const uint32_t id = ids.find(token.content);
    if (token.content.empty() || id == kNoId) continue;
    ids_.add(token.content, id);
    if (token.special) specials_.add(token.content, id);
    by_id_.insert_or_assign(id, token);
  }
  plain_ = make_matcher(false);
  normalized_ = make_matcher(true);
}

AddedTokens::Matcher AddedTokens::make_matcher(bool normalized) const {
  std::vector<std::pair<std::string_view, uint32_t>> keys;
  for (const auto& [id, token] : by_id_) {
    if (token.normalized != normalized) continue;
    const auto form = normalized_forms_.find(id);
    const bool changed = normalized && form != normalized_forms_.end();
    const std::string_view key = changed ? form->second : token.content;
    if (!key.empty()) keys.emplace_back(key, id);
  }
  Matcher matcher;
  if (keys.empty()) return matcher;
  for (const auto& [key, id] : keys) {
    if (matcher.first_bytes.find(key[0]) == std::string::npos) matcher.first_bytes += key[0];
  }
  matcher.trie = ByteTrie(std::move(keys));
  return matcher;
}

// The first offset from `from` on at which a token may begin.
size_t AddedTokens::Matcher::next(std::string_view text, size_t from) const {
  if (first_bytes.size() == 1) {
    const void* found = from < text.size()
                            ? std::memchr(text.data() + from, first_bytes[0], text.size() - from)
                            : nullptr;
    return found == nullptr ? text.size()
                            : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  }
  while (from < text.size() && !trie.may_begin(text[from])) ++from;
  return from;
}

uint32_t AddedTokens::find(std::string_view content) const { return ids_.find(content); }

const std::string* AddedTokens::decoded(uint32_t id) const {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  const auto form = normalized_forms_.find(id);
  return form == normalized_forms_.end() ? &it->second.content : &form->second;
}

bool AddedTokens::is_special(uint32_t id) const {
  const auto it = by_id_.find(id);
  return it != by_id_.end() && it->second.special;
}

// Finds the leftmost token, the longest of several. A single_word token inside of a word is text.
// White space stripped by a token may begin the next one.
void AddedTokens::find(const Matcher& matcher, std::string_view text, bool skip_special,
                       std::vector<Section>& sections) const {
  sections.clear();
  size_t done = 0;
  const auto section = [&](size_t begin, size_t end, uint32_t id) {
    sections.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id});
  };
  if (!matcher.trie.empty()) {
    const KeyFinder keys(matcher.trie, text);
    for (size_t at = matcher.next(text, 0); at < text.size();) {
      const auto [length, id] = keys.longest(at);
      if (length == 0) {
        at = matcher.next(text, at + 1);
        continue;
      }
      size_t begin = at;
      size_t end = at + length;
      at = matcher.next(text, end);
      const AddedToken& token = by_id_.at(id);
      if (skip_special && is_special(token.content)) continue;
      if (token.single_word &&
          (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
        continue;
      }
      if (token.lstrip) begin = std::max(space_before(text, begin), done);
      if (token.rstrip) end = space_after(text, end);
      if (done < begin) section(done, begin, kNoId);
      section(begin, end, id);
      done = end;
    }
  }
  if (done != text.size()) section(done, text.size(), kNoId);
}

}  // namespace lathe::tokenizer
