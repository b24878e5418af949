// SPDX-License-Identifier: MIT
// The result of tokenisation, its truncation and its padding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lathe::tokenizer {

// One entry per token in each list. All lists except `ids` are empty unless `detailed`.
struct Encoding {
  static constexpr int64_t kNoWord = -1;

  bool detailed = false;
  std::vector<uint32_t> ids;
  std::vector<uint32_t> type_ids;
  std::vector<std::string> tokens;
  std::vector<int64_t> words;                          // index of the piece, or kNoWord
  std::vector<std::pair<uint32_t, uint32_t>> offsets;  // in the text, in characters
  std::vector<uint8_t> special_tokens_mask;
  std::vector<uint8_t> attention_mask;
  std::vector<Encoding> overflowing;  // the windows that truncation removed
  // The token range of each text (0, 1), without special tokens.
  std::map<size_t, std::pair<size_t, size_t>> sequence_ranges;

  size_t size() const { return ids.size(); }
  void add_special(uint32_t id, const std::string& token, uint32_t type_id);
  void set_type_ids(uint32_t type_id);
  void set_sequence(size_t index) { sequence_ranges[index] = {0, ids.size()}; }
  // Tokens [begin, end), without overflow.
  Encoding part(size_t begin, size_t end) const;
  // Appends another encoding. Overflows are combined pairwise.
  void merge(Encoding other);
};

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  size_t max_length = 512;
  size_t stride = 0;
  Strategy strategy = Strategy::longest_first;
  bool left = false;  // truncates at the left
};

struct Padding {
  std::optional<size_t> length;  // absent: the longest length
  std::optional<size_t> multiple_of;
  uint32_t id = 0;
  uint32_t type_id = 0;
  std::string token = "[PAD]";
  bool left = false;
};

// Truncates a text, or a pair of texts, to max_length tokens in total.
void truncate(Encoding& first, Encoding* second, const Truncation& truncation);
void pad(std::span<Encoding> encodings, const Padding& padding);

}  // namespace lathe::tokenizer
