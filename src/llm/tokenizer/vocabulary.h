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

// Maps tokens to ids and back. In byte form, a token of the byte-level alphabet is kept as the
// bytes that it stands for; tokens with other characters stay text and never compare equal to
// bytes.
class Vocabulary {
 public:
  enum class Form { text, bytes };

  explicit Vocabulary(Form form = Form::text) : form_(form), seed_(hash_seed()) {}
  void reserve(size_t tokens, size_t bytes);
  // A token that is there already gets the new id.
  void add(std::string_view token, uint32_t id);
  // A token given as bytes, whatever they are (byte form).
  void add_bytes(std::string_view bytes, uint32_t id);
  // Makes the way back; before it, text() and stored() know nothing. Of several tokens with one id
  // the last added counts.
  void finish();

  Form form() const { return form_; }
  size_t size() const { return entries_.size(); }
  uint32_t max_id() const { return max_id_; }  // 0 if empty

  // kNoId if there is none.
  uint32_t find(std::string_view token) const;
  uint32_t find_bytes(std::string_view bytes) const {
    return find_bytes(bytes, hash_bytes(bytes, seed_));
  }
  uint32_t find_bytes(std::string_view bytes, uint64_t hash) const;
  uint64_t hash(std::string_view bytes) const { return hash_bytes(bytes, seed_); }

  bool has(uint32_t id) const { return entry_of(id) != nullptr; }
  // The token as tokenizer.json spells it; empty without one.
  std::string text(uint32_t id) const;
  void read(uint32_t id, std::string& text) const;  // the same, which becomes all of `text`
  // Its bytes in byte form (if `is_bytes`), else its text.
  std::string_view stored(uint32_t id) const;
  bool is_bytes(uint32_t id) const;

  // All tokens in the order in which they were added: stored form and id.
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
  std::vector<uint32_t> dense_;                        // entry by id, where ids are not sparse
  std::vector<std::pair<uint32_t, uint32_t>> sparse_;  // else (id, entry), sorted
};

// The bytes that `token` stands for in the byte-level alphabet; false if it has other characters.
bool bytes_of_byte_level(std::string_view token, std::string& bytes);
// The reverse.
std::string byte_level_of_bytes(std::string_view bytes);
// "<0x0A>" for 10.
std::string byte_token(uint8_t byte);

}  // namespace lathe::tokenizer
