// SPDX-License-Identifier: MIT
#include "llm/tokenizer/bpe.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr std::string_view kSpace = "\u2581";

// A word and its tokens in one cache line.
struct alignas(64) CachedWord {
  static constexpr size_t kMaxBytes = 34;
  static constexpr size_t kMaxTokens = 7;
  uint32_t ids[kMaxTokens];
  uint8_t size;
  uint8_t count;
  char bytes[kMaxBytes];
};
static_assert(sizeof(CachedWord) == 64);
constexpr size_t kCachedWords = 1 << 14;  // 1 MiB per thread

}  // namespace

void MergeTable::reserve(size_t merges) { grow(merges); }

void MergeTable::grow(size_t merges) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(64, merges * 2));
  if (capacity <= slots_.size()) return;
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(capacity));
  mask_ = capacity - 1;
  size_ = 0;
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) {
      set(static_cast<uint32_t>(slot.key >> 32), static_cast<uint32_t>(slot.key), slot.join);
    }
  }
}

void MergeTable::set(uint32_t left, uint32_t right, BpeJoin join) {
  grow(size_ + 1);
  const uint64_t key = uint64_t{left} << 32 | right;
  size_t at = hash_number(key, seed_) & mask_;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
  if (slots_[at].key == kEmpty) ++size_;
  slots_[at] = {key, join};
}

uint32_t MergeReader::find(std::string_view token, size_t rank) const {
  const uint32_t id = vocabulary_.find(token);
  if (id == kNoId) {
    fail(ErrorKind::invalid_model, "model.merges[{}] needs '{}', which is not in model.vocab", rank,
         escape(token));
  }
  return id;
}

// Files mostly list merged tokens in the order of the merges, so the next id is tried first.
uint32_t MergeReader::find_joined(std::string_view bytes) {
  if (vocabulary_.is_bytes(guess_) && vocabulary_.stored(guess_) == bytes) return guess_++;
  const uint32_t id = vocabulary_.find_bytes(bytes);
  guess_ = id + 1;
  return id;
}

void MergeReader::add(std::string_view left, std::string_view right, size_t rank,
                      MergeTable& table) {
  if (rank >= kNoRank || right.size() < prefix_) {
    fail(
        ErrorKind::invalid_model,
        "model.merges[{}] has the right part '{}', which is shorter than continuing_subword_prefix "
        "({} bytes), or has too high a rank",
        rank, escape(right), prefix_);
  }
  // In byte form parts and result are bytes; a part that is not bytes never occurs in a text.
  if (vocabulary_.form() == Vocabulary::Form::bytes && bytes_of_byte_level(left, left_) &&
      bytes_of_byte_level(right, right_)) {
    const uint32_t left_id = vocabulary_.find_bytes(left_);
    const uint32_t right_id = vocabulary_.find_bytes(right_);
    const uint32_t joined = find_joined(left_ += right_);
    if (left_id != kNoId && right_id != kNoId && joined != kNoId) {
      table.set(left_id, right_id, {static_cast<uint32_t>(rank), joined});
      return;
    }
  }
  const uint32_t left_id = find(left, rank);
  const uint32_t right_id = find(right, rank);
  const uint32_t joined = find(left_.assign(left).append(right.substr(prefix_)), rank);
  if (vocabulary_.form() == Vocabulary::Form::text) {
    table.set(left_id, right_id, {static_cast<uint32_t>(rank), joined});
  }
}

class Bpe::Scratch : public ModelScratch {
 public:
  Scratch() : cache(kCachedWords) {}
  void clear_word_cache() override { cache.assign(kCachedWords, {}); }

  BpeWork work;
  std::string buffer;
  std::vector<CachedWord> cache;
};

bool Bpe::covers_bytes(const Vocabulary& vocabulary, const BpeOptions& options) {
  const std::string suffix = options.end_of_word_suffix.value_or("");
  std::string suffix_bytes;
  if (!bytes_of_byte_level(suffix, suffix_bytes)) return false;
  for (int i = 0; i < 256; ++i) {
    const std::string byte(1, static_cast<char>(i));
    if (vocabulary.find_bytes(byte) == kNoId) return false;
    if (vocabulary.find_bytes(byte + suffix_bytes) == kNoId) return false;
  }
  return true;
}

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  plain_ = !options_.continuing_subword_prefix && !options_.end_of_word_suffix;
  if (options_.unk_token) unk_id_ = vocabulary_.find(*options_.unk_token);
  const bool byte_form = vocabulary_.form() == Vocabulary::Form::bytes;
  all_byte_tokens_ = true;
  bytes_.resize(256);
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    bytes_[i] = byte_form ? vocabulary_.find_bytes(std::string(1, static_cast<char>(i)))
                          : vocabulary_.find(byte_token(byte));
    all_byte_tokens_ = all_byte_tokens_ && bytes_[i] != kNoId;
  }
  if (byte_form) {
    std::string suffix;
    if (options_.end_of_word_suffix) bytes_of_byte_level(*options_.end_of_word_suffix, suffix);
    last_bytes_.resize(256);
    for (int i = 0; i < 256; ++i) {
      last_bytes_[i] = vocabulary_.find_bytes(std::string(1, static_cast<char>(i)) + suffix);
    }
    byte_pairs_.resize(65536);
    for (size_t i = 0; i < 65536; ++i) {
      if (!options_.ranks_are_ids) {
        byte_pairs_[i] = merges_.find(bytes_[i >> 8], bytes_[i & 255]);
        continue;
      }
      const std::array<char, 2> pair{static_cast<char>(i >> 8), static_cast<char>(i & 255)};
      const uint32_t id = vocabulary_.find_bytes({pair.data(), 2});
      byte_pairs_[i] = {id, id};
    }
  }
  if (plain_) {
    whole_size_ = vocabulary_.size() == 0 ? 0 : size_t{vocabulary_.max_id()} + 1;
    if (whole_size_ > vocabulary_.size() * 4 + 65536) whole_size_ = 0;
    whole_ = std::make_unique<std::atomic<uint8_t>[]>(whole_size_);
  }
  find_word_starts();
}

// No merge crosses the start of a ▁ if no merged token has a ▁ behind another character and
// unknown characters are not fused.
void Bpe::find_word_starts() {
  if (vocabulary_.form() == Vocabulary::Form::bytes || !plain_) return;
  if (vocabulary_.find(kSpace) == kNoId || options_.ranks_are_ids || options_.ignore_merges) return;
  if (!(options_.byte_fallback && all_byte_tokens_)) return;
  bool joins = false;
  vocabulary_.for_each([&](std::string_view token, uint32_t) {
    size_t at = token.find(kSpace, 1);
    for (; at != std::string_view::npos && !joins; at = token.find(kSpace, at + kSpace.size())) {
      joins = at < kSpace.size() || token.substr(at - kSpace.size(), kSpace.size()) != kSpace;
    }
  });
  splits_at_spaces_ = !joins;
}

std::unique_ptr<ModelScratch> Bpe::make_scratch() const { return std::make_unique<Scratch>(); }

void Bpe::begin_bytes(std::string_view word, BpeWork& work) const {
  work.symbols.resize(word.size());
  for (uint32_t i = 0; i < word.size(); ++i) {
    work.symbols[i] = {bytes_[static_cast<uint8_t>(word[i])], i, 1};
  }
  work.symbols.back().id = last_bytes_[static_cast<uint8_t>(word.back())];
}

// Encodes a character without a token as byte tokens if all exist, else as unknown, else drops it.
// As in the reference, an unknown token is appended before the next known one, possibly after byte
// tokens.
void Bpe::begin_unknown(std::string_view spelled, uint32_t begin, uint32_t size,
                        std::optional<BpeSymbol>& unknown, BpeWork& work) const {
  if (options_.byte_fallback) {
    bool all = true;
    for (const char byte : spelled) all = all && bytes_[static_cast<uint8_t>(byte)] != kNoId;
    if (all) {
      for (const char byte : spelled) {
        work.symbols.push_back({bytes_[static_cast<uint8_t>(byte)], begin, 1});
      }
      return;
    }
  }
  if (!options_.unk_token) return;
  check(unk_id_ != kNoId, ErrorKind::invalid_model,
        "model.unk_token '{}' is not in model.vocab, but the text has a character without a token",
        escape(*options_.unk_token));
  if (unknown && options_.fuse_unk) {
    unknown->size += size;
    return;
  }
  if (unknown) work.symbols.push_back(*unknown);
  unknown = BpeSymbol{unk_id_, begin, size};
}

void Bpe::begin_characters(std::string_view word, BpeWork& work, std::string& buffer) const {
  work.symbols.clear();
  std::optional<BpeSymbol> unknown;
  for (size_t at = 0; at < word.size();) {
    const size_t size = std::min(unicode::length(word[at]), word.size() - at);
    std::string_view spelled = word.substr(at, size);
    const bool last = at + size == word.size();
    if (!plain_) {
      buffer.clear();
      if (at > 0 && options_.continuing_subword_prefix) {
        buffer += *options_.continuing_subword_prefix;
      }
      buffer += spelled;
      if (last && options_.end_of_word_suffix) buffer += *options_.end_of_word_suffix;
      spelled = buffer;
    }
    const uint32_t id = vocabulary_.find(spelled);
    const auto begin = static_cast<uint32_t>(at);
    if (id != kNoId) {
      if (unknown) work.symbols.push_back(*unknown);
      unknown.reset();
      work.symbols.push_back({id, begin, static_cast<uint32_t>(size)});
    } else {
      begin_unknown(spelled, begin, static_cast<uint32_t>(size), unknown, work);
    }
    at += size;
  }
  if (unknown) work.symbols.push_back(*unknown);
}

void Bpe::merge(std::string_view word, BpeWork& work) const {
  if (options_.ranks_are_ids) {
    merge_symbols(work, [&](const BpeSymbol& left, const BpeSymbol& right) {
      const size_t size = left.size + right.size;
      const auto byte = [&](size_t i) {
        return size_t{static_cast<uint8_t>(word[left.begin + i])};
      };
      if (size == 2) return byte_pairs_[byte(0) << 8 | byte(1)];
      const uint32_t id = vocabulary_.find_bytes(word.substr(left.begin, size));
      return BpeJoin{id, id};
    });
    return;
  }
  if (!byte_pairs_.empty()) {
    const size_t suffixed = options_.end_of_word_suffix ? word.size() : word.size() + 1;
    merge_symbols(work, [&](const BpeSymbol& left, const BpeSymbol& right) {
      if (left.size + right.size == 2 && left.begin + 2 < suffixed) {
        return byte_pairs_[size_t{static_cast<uint8_t>(word[left.begin])} << 8 |
                           static_cast<uint8_t>(word[right.begin])];
      }
      return merges_.find(left.id, right.id);
    });
    return;
  }
  merge_symbols(work, [&](const BpeSymbol& left, const BpeSymbol& right) {
    return merges_.find(left.id, right.id);
  });
}

bool Bpe::is_whole(uint32_t id, std::string_view word, Scratch& scratch) const {
  if (options_.ignore_merges) return true;
  if (id >= whole_size_) return false;
  const uint8_t known = whole_[id].load(std::memory_order_relaxed);
  if (known != 0) return known == 1;
  if (vocabulary_.form() == Vocabulary::Form::bytes) {
    begin_bytes(word, scratch.work);
  } else {
    begin_characters(word, scratch.work, scratch.buffer);
  }
  merge(word, scratch.work);
  const auto& symbols = scratch.work.symbols;
  const bool whole = symbols.size() == 1 && symbols[0].id == id && symbols[0].size == word.size();
  whole_[id].store(whole ? 1 : 2, std::memory_order_relaxed);
  return whole;
}

void Bpe::word(std::string_view word, Scratch& scratch, Tokens& tokens, uint32_t piece) const {
  const bool byte_form = vocabulary_.form() == Vocabulary::Form::bytes;
  const uint64_t hash = vocabulary_.hash(word);
  // Only in byte form does an id determine the token's size in the text.
  const bool cached = word.size() <= CachedWord::kMaxBytes && (!tokens.detailed || byte_form);
  CachedWord& entry = scratch.cache[hash & (kCachedWords - 1)];
  if (cached && entry.size == word.size() &&
      std::memcmp(entry.bytes, word.data(), word.size()) == 0) {
    if (!tokens.detailed) {
      tokens.ids.insert(tokens.ids.end(), entry.ids, entry.ids + entry.count);
      return;
    }
    uint32_t begin = 0;
    for (uint32_t i = 0; i < entry.count; ++i) {
      const bool last = i + 1u == entry.count;  // may carry the suffix
      const auto end = last
                           ? static_cast<uint32_t>(word.size())
                           : begin + static_cast<uint32_t>(vocabulary_.stored(entry.ids[i]).size());
      tokens.add(entry.ids[i], {begin, end}, piece);
      begin = end;
    }
    return;
  }
  if (plain_ || options_.ignore_merges) {
    const uint32_t id = vocabulary_.find_bytes(word, hash);
    if (id != kNoId && is_whole(id, word, scratch)) {
      if (cached) {
        entry.size = static_cast<uint8_t>(word.size());
        entry.count = 1;
        entry.ids[0] = id;
        std::memcpy(entry.bytes, word.data(), word.size());
      }
      tokens.add(id, {0, static_cast<uint32_t>(word.size())}, piece);
      return;
    }
  }
  if (byte_form) {
    begin_bytes(word, scratch.work);
  } else {
    begin_characters(word, scratch.work, scratch.buffer);
  }
  merge(word, scratch.work);
  uint32_t begin = 0;  // token sizes add up
  for (const BpeSymbol& symbol : scratch.work.symbols) {
    tokens.add(symbol.id, {begin, begin + symbol.size}, piece);
    begin += symbol.size;
  }
  const size_t count = scratch.work.symbols.size();
  if (cached && count <= CachedWord::kMaxTokens) {
    entry.size = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    for (size_t i = 0; i < count; ++i) entry.ids[i] = scratch.work.symbols[i].id;
    std::memcpy(entry.bytes, word.data(), word.size());
  }
}

void Bpe::split_words(std::string_view text, Scratch& scratch, Tokens& tokens,
                      uint32_t piece) const {
  const size_t first = tokens.ids.size();
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin;
    while (text.substr(end, kSpace.size()) == kSpace) end += kSpace.size();
    end = std::min(text.find(kSpace, end), text.size());
    const size_t done = tokens.ids.size();
    word(text.substr(begin, end - begin), scratch, tokens, piece);
    if (tokens.detailed) {
      for (size_t i = std::max(done, first); i < tokens.ids.size(); ++i) {
        tokens.ranges[i].begin += static_cast<uint32_t>(begin);
        tokens.ranges[i].end += static_cast<uint32_t>(begin);
      }
    }
    begin = end;
  }
}

void Bpe::tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                   Tokens& tokens) const {
  auto& own = static_cast<Scratch&>(scratch);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view piece = text.substr(pieces[i].begin, pieces[i].size());
    if (splits_at_spaces_) {
      split_words(piece, own, tokens, static_cast<uint32_t>(i));
    } else {
      word(piece, own, tokens, static_cast<uint32_t>(i));
    }
  }
}

}  // namespace lathe::tokenizer
