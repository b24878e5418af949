// SPDX-License-Identifier: MIT
// Byte pair encoding of tokenizer.json and tiktoken.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/tokenizer/bpe_merge.h"
#include "llm/tokenizer/model.h"

namespace lathe::tokenizer {

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::optional<std::string> continuing_subword_prefix;
  std::optional<std::string> end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  // Neighbours merge if their concatenation is a token, the lowest id first (tiktoken).
  bool ranks_are_ids = false;
};

// (left, right) -> (rank, joined).
class MergeTable {
 public:
  void reserve(size_t merges);
  void set(uint32_t left, uint32_t right, BpeJoin join);  // overwrites an earlier one
  BpeJoin find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return {kNoRank, 0};
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t at = hash_number(key, seed_) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].join;
      if (slots_[at].key == kEmpty) return {kNoRank, 0};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    BpeJoin join{};
  };
  void grow(size_t merges);
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
  uint64_t seed_ = hash_seed();
};

// Adds a file's merges to a table.
class MergeReader {
 public:
  // `prefix`: leading bytes of a right part that the merged token omits.
  MergeReader(const Vocabulary& vocabulary, size_t prefix)
      : vocabulary_(vocabulary), prefix_(prefix) {}
  // InvalidModel if a part or the merged text is not a token. The vocabulary must be finished.
  void add(std::string_view left, std::string_view right, size_t rank, MergeTable& table);

 private:
  uint32_t find(std::string_view token, size_t rank) const;
  uint32_t find_joined(std::string_view bytes);
  const Vocabulary& vocabulary_;
  size_t prefix_;
  uint32_t guess_ = 256;
  std::string left_, right_;
};

class Bpe : public Model {
 public:
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  std::unique_ptr<ModelScratch> make_scratch() const override;
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override;

  // True if a vocabulary in byte form has all single bytes, also with the suffix, if any. Then
  // every byte has a token.
  static bool covers_bytes(const Vocabulary& vocabulary, const BpeOptions& options);

 private:
  class Scratch;
  void word(std::string_view word, Scratch& scratch, Tokens& tokens, uint32_t piece) const;
  void split_words(std::string_view text, Scratch& scratch, Tokens& tokens, uint32_t piece) const;
  void begin_bytes(std::string_view word, BpeWork& work) const;
  void begin_characters(std::string_view word, BpeWork& work, std::string& buffer) const;
  void begin_unknown(std::string_view spelled, uint32_t begin, uint32_t size,
                     std::optional<BpeSymbol>& unknown, BpeWork& work) const;
  void merge(std::string_view word, BpeWork& work) const;
  bool is_whole(uint32_t id, std::string_view word, Scratch& scratch) const;
  void find_word_starts();

  MergeTable merges_;
  BpeOptions options_;
  bool plain_ = false;  // neither prefix nor suffix
  uint32_t unk_id_ = kNoId;
  std::vector<uint32_t> bytes_;       // id of each single byte (byte form) or <0xNN>
  std::vector<uint32_t> last_bytes_;  // id of each byte with the suffix
  std::vector<BpeJoin> byte_pairs_;   // joins of two single bytes
  bool all_byte_tokens_ = false;
  // State per word of the vocabulary: unknown, encoded as one token, or not.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
  size_t whole_size_ = 0;
  // No merge crosses the start of a ▁, so a long text can be split there.
  bool splits_at_spaces_ = false;
};

}  // namespace lathe::tokenizer
