// SPDX-License-Identifier: MIT
// Tokens and their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/tokenizer/hash.h"

namespace lathe::tokenizer {

inline constexpr uint32_t kNoId = 0xFFFFFFFF;
inline constexpr uint32_t kMaxId = 0x7FFFFFFF;  // of a token in a file

// Maps tokens to ids and back. In byte form, a token of the byte-level alphabet is stored as its
// bytes. Tokens with other characters are stored as text, which never equals bytes.
class Vocabulary {
 public:
  enum class Form { text, bytes };

  explicit Vocabulary(Form form = Form::text) : form_(form), seed_(hash_seed()) {}
  void reserve(size_t tokens, size_t bytes);
  // An existing token gets the new id.
  void add(std::string_view token, uint32_t id);
  // Adds a token by its bytes (byte form).
  void add_bytes(std::string_view bytes, uint32_t id);
  // Builds the map from ids to tokens, which text() and stored() require. The last added of several
  // tokens with one id counts.
  void finish();

  Form form() const { return form_; }
  size_t size() const { return entries_.size(); }
  uint32_t max_id() const { return max_id_; }  // 0 if empty

  // kNoId for an unknown token.
  uint32_t find(std::string_view token) const;
  uint32_t find_bytes(std::string_view bytes) const {
    return find_bytes(bytes, hash_bytes(bytes, seed_));
  }
  uint32_t find_bytes(std::string_view bytes, uint64_t hash) const;
  uint64_t hash(std::string_view bytes) const { return hash_bytes(bytes, seed_); }

  bool has(uint32_t id) const { return entry_of(id) != nullptr; }
  // The token's text in tokenizer.json; "" for an unknown id.
  std::string text(uint32_t id) const;
  void read(uint32_t id, std::string& text) const;  // assigns it to `text`
  // The token's bytes if is_bytes(id), else its text.
  std::string_view stored(uint32_t id) const;
  bool is_bytes(uint32_t id) const;

  // Visits all tokens in the order of addition: stored form and id.
  template <class F>
  void for_each(F&& visit) const {
    for (const Entry& entry : entries_) visit(stored(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t offset;
    uint32_t size : 31;
    uint32_t bytes : 1;
    uint32_t id;
  };
  struct Slot {
    uint32_t tag = 0;
    uint32_t entry = kNoId;
  };

  void insert(std::string_view stored, bool bytes, uint32_t id);
  uint32_t find_entry(std::string_view stored, bool bytes, uint64_t hash) const;
  void grow(size_t entries);
  const Entry* entry_of(uint32_t id) const;
  std::string_view stored(const Entry& entry) const {
    return std::string_view(arena_).substr(entry.offset, entry.size);
  }

  Form form_;
  uint64_t seed_;
  std::string arena_, buffer_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // open addressing; a power of two
  uint32_t max_id_ = 0;
  std::vector<uint32_t> dense_;                        // entry by id, unless ids are sparse
  std::vector<std::pair<uint32_t, uint32_t>> sparse_;  // else (id, entry), sorted
};

// Decodes the byte-level alphabet; false if `token` has other characters.
bool bytes_of_byte_level(std::string_view token, std::string& bytes);
// Encodes bytes in the byte-level alphabet.
std::string byte_level_of_bytes(std::string_view bytes);
// "<0x0A>" for 10.
std::string byte_token(uint8_t byte);

}  // namespace lathe::tokenizer
