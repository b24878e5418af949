// SPDX-License-Identifier: MIT
#include "llm/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "base/error.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace lathe::tokenizer {
namespace {

// All characters of the byte-level alphabet are below this code point.
constexpr size_t kAlphabetEnd = 0x180;

const std::array<int16_t, kAlphabetEnd>& byte_table() {
  static const std::array<int16_t, kAlphabetEnd> table = [] {
    std::array<int16_t, kAlphabetEnd> out{};
    for (size_t i = 0; i < kAlphabetEnd; ++i) {
      out[i] = static_cast<int16_t>(byte_level_byte(static_cast<char32_t>(i)));
    }
    return out;
  }();
  return table;
}

}  // namespace

uint64_t hash_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  return seed;
}

bool bytes_of_byte_level(std::string_view token, std::string& bytes) {
  const auto& table = byte_table();
  bytes.resize(token.size());
  size_t n = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto lead = static_cast<uint8_t>(token[i]);
    size_t character = lead;
    if (lead >= 0x80) {
      if (lead < 0xC2 || lead > 0xC5 || i + 1 >= token.size()) return false;
      character = (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(token[++i]) & 0x3Fu);
    }
    const int byte = character < kAlphabetEnd ? table[character] : -1;
    if (byte < 0) return false;
    bytes[n++] = static_cast<char>(byte);
  }
  bytes.resize(n);
  return true;
}

std::string byte_level_of_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) out += byte_level_character(static_cast<uint8_t>(byte));
  return out;
}

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  arena_.reserve(bytes);
  grow(tokens);
}

void Vocabulary::grow(size_t entries) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(64, entries * 2));
  if (capacity <= slots_.size()) return;
  std::vector<Slot> slots(capacity);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const uint64_t hash = hash_bytes(stored(entries_[i]), seed_);
    size_t at = hash & (capacity - 1);
    while (slots[at].entry != kNoId) at = (at + 1) & (capacity - 1);
    slots[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i)};
  }
  slots_ = std::move(slots);
}

uint32_t Vocabulary::find_entry(std::string_view text, bool bytes, uint64_t hash) const {
  if (slots_.empty()) return kNoId;
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask; slots_[at].entry != kNoId; at = (at + 1) & mask) {
    if (slots_[at].tag != tag) continue;
    const Entry& entry = entries_[slots_[at].entry];
    if (entry.size == text.size() && (entry.bytes != 0) == bytes && stored(entry) == text) {
      return slots_[at].entry;
    }
  }
  return kNoId;
}

void Vocabulary::insert(std::string_view text, bool bytes, uint32_t id) {
  if (id > kMaxId) {
    fail(ErrorKind::invalid_model, "token '{}' has id {}, expected at most {}", escape(text), id,
         kMaxId);
  }
  if (text.size() >= (1u << 31) || arena_.size() + text.size() >= kNoId) {
    fail(ErrorKind::invalid_model,
         "token '{}' has {} bytes after {} bytes of other tokens, at most {} are allowed",
         escape(text), text.size(), arena_.size(), kNoId - 1);
  }
  grow(entries_.size() + 1);
  const uint64_t hash = hash_bytes(text, seed_);
  max_id_ = std::max(max_id_, id);
  const uint32_t found = find_entry(text, bytes, hash);
  if (found != kNoId) {
    entries_[found].id = id;
    return;
  }
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].entry != kNoId) at = (at + 1) & mask;
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entries_.size())};
  entries_.push_back({static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(text.size()),
                      bytes ? 1u : 0u, id});
  arena_ += text;
}

void Vocabulary::add(std::string_view token, uint32_t id) {
  if (form_ == Form::bytes && bytes_of_byte_level(token, buffer_)) {
    insert(buffer_, true, id);
  } else {
    insert(token, false, id);
  }
}

void Vocabulary::add_bytes(std::string_view bytes, uint32_t id) { insert(bytes, true, id); }

uint32_t Vocabulary::find(std::string_view token) const {
  uint32_t entry;
  std::string bytes;
  if (form_ == Form::bytes && bytes_of_byte_level(token, bytes)) {
    entry = find_entry(bytes, true, hash_bytes(bytes, seed_));
  } else {
    entry = find_entry(token, false, hash_bytes(token, seed_));
  }
  return entry == kNoId ? kNoId : entries_[entry].id;
}

uint32_t Vocabulary::find_bytes(std::string_view bytes, uint64_t hash) const {
  const uint32_t entry = find_entry(bytes, form_ == Form::bytes, hash);
  return entry == kNoId ? kNoId : entries_[entry].id;
}

void Vocabulary::finish() {
  max_id_ = 0;
  for (const Entry& entry : entries_) max_id_ = std::max(max_id_, entry.id);
  dense_.clear();
  sparse_.clear();
  if (max_id_ < entries_.size() * 4 + 65536) {
    dense_.assign(size_t{max_id_} + 1, kNoId);
    for (size_t i = 0; i < entries_.size(); ++i) dense_[entries_[i].id] = static_cast<uint32_t>(i);
    return;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    sparse_.emplace_back(entries_[i].id, static_cast<uint32_t>(i));
  }
  std::sort(sparse_.begin(), sparse_.end());
}

const Vocabulary::Entry* Vocabulary::entry_of(uint32_t id) const {
  if (!dense_.empty()) {
    return id < dense_.size() && dense_[id] != kNoId ? &entries_[dense_[id]] : nullptr;
  }
  auto it = std::upper_bound(sparse_.begin(), sparse_.end(), std::pair(id, kNoId));
  if (it == sparse_.begin() || (--it)->first != id) return nullptr;
  return &entries_[it->second];
}

std::string_view Vocabulary::stored(uint32_t id) const {
  const Entry* entry = entry_of(id);
  return entry == nullptr ? std::string_view() : stored(*entry);
}

bool Vocabulary::is_bytes(uint32_t id) const {
  const Entry* entry = entry_of(id);
  return entry != nullptr && entry->bytes != 0;
}

std::string Vocabulary::text(uint32_t id) const {
  std::string text;
  read(id, text);
  return text;
}

void Vocabulary::read(uint32_t id, std::string& text) const {
  text.clear();
  const Entry* entry = entry_of(id);
  if (entry == nullptr) return;
  if (entry->bytes != 0) {
    text = byte_level_of_bytes(stored(*entry));
  } else {
    text = stored(*entry);
  }
}

}  // namespace lathe::tokenizer
