// SPDX-License-Identifier: MIT
#include "llm/tokenizer/tokenizer.h"

#include <simdjson.h>

#include <algorithm>

#include "base/error.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr size_t kMaxText = (size_t{1} << 31) - 1;
constexpr size_t kKeptScratches = 64;

// Maps bytes of a text to character indices.
class CharacterIndex {
 public:
  void assign(std::string_view text) {
    size_ = text.size();
    indices_.clear();
    const bool ascii = std::all_of(text.begin(), text.end(),
                                   [](char byte) { return static_cast<signed char>(byte) >= 0; });
    if (ascii) return;
    indices_.resize(text.size());
    uint32_t index = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80) ++index;
      indices_[i] = index;
    }
  }
  // Converts bytes to characters; offsets outside of the text are unchanged.
  std::pair<uint32_t, uint32_t> convert(Range range) const {
    if (range.begin >= size_) return {range.begin, range.end};
    const uint32_t begin = at(range.begin);
    if (range.end < size_) return {begin, at(range.end)};
    const uint32_t last = range.end - 1 < size_ ? at(range.end - 1) : begin + 1;
    return {begin, last + 1};
  }

 private:
  uint32_t at(uint32_t byte) const { return indices_.empty() ? byte : indices_[byte]; }
  size_t size_ = 0;
  std::vector<uint32_t> indices_;  // empty for ASCII
};

}  // namespace

struct Tokenizer::Scratch {
  std::unique_ptr<ModelScratch> model;
  Tokens tokens;
  AlignedText section, part;
  Pieces pieces;
  std::vector<Section> plain, normalized;
  CharacterIndex characters;
  uint32_t type_id = 0;
  int64_t next_word = 0;
  std::string replaced;
};

// A scratch for the duration of a call.
class Tokenizer::Lease {
 public:
  explicit Lease(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    {
      const std::lock_guard lock(tokenizer.mutex_);
      if (!tokenizer.scratches_.empty()) {
        scratch_ = std::move(tokenizer.scratches_.back());
        tokenizer.scratches_.pop_back();
        return;
      }
    }
    scratch_ = std::make_unique<Scratch>();
    scratch_->model = tokenizer.parts_.model->make_scratch();
  }
  ~Lease() {
    const std::lock_guard lock(tokenizer_.mutex_);
    if (tokenizer_.scratches_.size() < kKeptScratches) {
      tokenizer_.scratches_.push_back(std::move(scratch_));
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Scratch& operator*() const { return *scratch_; }

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<Scratch> scratch_;
};

Tokenizer::Tokenizer(Parts parts) : parts_(std::move(parts)) {
  needs_map_ = parts_.pre_tokenizer != nullptr && parts_.pre_tokenizer->needs_map();
  joins_bytes_ = parts_.decoder != nullptr && parts_.decoder->is_byte_level() &&
                 parts_.model->vocabulary().form() == Vocabulary::Form::bytes;
  scratches_.reserve(kKeptScratches);
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::clear_word_cache() const {
  const std::lock_guard lock(mutex_);
  for (const auto& scratch : scratches_) scratch->model->clear_word_cache();
}

void Tokenizer::add_token(const AlignedText& text, const Section& section, Scratch& scratch,
                          Encoding& out) const {
  out.ids.push_back(section.id);
  if (!out.detailed) return;
  out.type_ids.push_back(scratch.type_id);
  out.tokens.emplace_back(text.view(section.range));
  out.words.push_back(scratch.next_word++);
  out.offsets.push_back(scratch.characters.convert(text.original(section.range)));
  out.special_tokens_mask.push_back(0);
  out.attention_mask.push_back(1);
}

void Tokenizer::add_details(const AlignedText& text, Scratch& scratch, Encoding& out) const {
  const Tokens& tokens = scratch.tokens;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const Range piece = scratch.pieces[tokens.pieces[i]];
    const Range range = tokens.ranges[i];
    const Range place{piece.begin + range.begin, piece.begin + range.end};
    Range original = range;  // for tokens beyond their piece, as in the reference
    if (range.begin == range.end) {
      const auto origin = static_cast<uint32_t>(text.origin_of(piece));
      original = {origin + range.begin, origin + range.end};
    } else if (range.end <= piece.size()) {
      original = text.original(place);
    }
    out.offsets.push_back(scratch.characters.convert(original));
    if (tokens.surfaces[i] != 0) {
      out.tokens.emplace_back(text.view(place));
    } else {
      out.tokens.push_back(parts_.model->token(tokens.ids[i]));
    }
    out.words.push_back(scratch.next_word + tokens.pieces[i]);
  }
  out.type_ids.resize(out.ids.size(), scratch.type_id);
  out.special_tokens_mask.resize(out.ids.size(), 0);
  out.attention_mask.resize(out.ids.size(), 1);
  scratch.next_word += static_cast<int64_t>(scratch.pieces.size());
}

// Encodes the text between added tokens.
void Tokenizer::encode_section(const AlignedText& text, std::string_view, Scratch& scratch,
                               Encoding& out) const {
  Tokens& tokens = scratch.tokens;
  tokens.detailed = out.detailed;
  tokens.clear();
  if (!out.detailed) tokens.ids.swap(out.ids);
  parts_.model->tokenize(text.view(), scratch.pieces, *scratch.model, tokens);
  if (!out.detailed) {
    tokens.ids.swap(out.ids);
    return;
  }
  out.ids.insert(out.ids.end(), tokens.ids.begin(), tokens.ids.end());
  add_details(text, scratch, out);
}

void Tokenizer::encode_text(std::string_view text, const EncodeOptions& options, uint32_t type_id,
                            Scratch& scratch, Encoding& out) const {
  check(text.size() <= kMaxText, ErrorKind::invalid_argument,
        "the text has {} bytes, at most {} can be tokenized at once", text.size(), kMaxText);
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    check(options.replace_invalid, ErrorKind::invalid_argument,
          "the text is not valid UTF-8 at byte {} of {}", unicode::find_invalid_utf8(text),
          text.size());
    scratch.replaced = to_valid_utf8(text);
    text = scratch.replaced;
  }
  out.detailed = options.detailed;
  scratch.type_id = type_id;
  scratch.next_word = 0;
  if (options.detailed) scratch.characters.assign(text);
  const AddedTokens& added = parts_.added_tokens;
  const bool keep_map = options.detailed || needs_map_;
  const AlignedText whole(text, keep_map);
  added.find_plain(text, options.special_as_text, scratch.plain);
  for (const Section& section : scratch.plain) {
    if (section.range.size() == 0) continue;
    if (section.id != kNoId) {
      add_token(whole, section, scratch, out);
      continue;
    }
    scratch.section.assign(whole.view(section.range), keep_map, section.range.begin);
    if (parts_.normalizer != nullptr) parts_.normalizer->apply(scratch.section);
    if (!added.has_normalized()) {
      pre_tokenize(parts_.pre_tokenizer.get(), scratch.section, scratch.pieces);
      encode_section(scratch.section, text, scratch, out);
      continue;
    }
    added.find_normalized(scratch.section.view(), options.special_as_text, scratch.normalized);
    for (const Section& part : scratch.normalized) {
      if (part.range.size() == 0) continue;
      if (part.id != kNoId) {
        add_token(scratch.section, part, scratch, out);
        continue;
      }
      scratch.part.assign_slice(scratch.section, part.range);
      pre_tokenize(parts_.pre_tokenizer.get(), scratch.part, scratch.pieces);
      encode_section(scratch.part, text, scratch, out);
    }
  }
}

Encoding Tokenizer::encode_one(std::string_view first, const std::string_view* second,
                               const EncodeOptions& options, Scratch& scratch) const {
  Encoding encoding;
  Encoding other;
  try {
    encode_text(first, options, 0, scratch, encoding);
    if (second != nullptr) encode_text(*second, options, 1, scratch, other);
  } catch (Error& error) {
    note_origin(error);
    throw;
  }
  Encoding* pair = second != nullptr ? &other : nullptr;
  const PostProcessor* processor = parts_.post_processor.get();
  if (parts_.truncation && options.truncate_and_pad) {
    Truncation truncation = *parts_.truncation;
    const size_t added = processor != nullptr && options.add_special_tokens
                             ? processor->added_tokens(pair != nullptr)
                             : 0;
    check(added <= truncation.max_length, ErrorKind::invalid_argument,
          "truncation to {} tokens leaves no room for {} special tokens", truncation.max_length,
          added);
    truncation.max_length -= added;
    truncate(encoding, pair, truncation);
  }
  return post_process(processor, std::move(encoding), pair, options.add_special_tokens);
}

void Tokenizer::apply_decoder(std::vector<std::string>& tokens) const {
  try {
    parts_.decoder->apply(tokens);
  } catch (Error& error) {
    note_origin(error);
    throw;
  }
}

void Tokenizer::note_origin(Error& error) const {
  if (error.kind() != ErrorKind::invalid_model || parts_.origin.empty()) return;
  error.note(fmt::format("in {}", escape(parts_.origin)));
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const Lease scratch(*this);
  Encoding out = encode_one(text, nullptr, options, *scratch);
  if (parts_.padding && options.truncate_and_pad) pad({&out, 1}, *parts_.padding);
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  const Lease scratch(*this);
  Encoding out = encode_one(first, &second, options, *scratch);
  if (parts_.padding && options.truncate_and_pad) pad({&out, 1}, *parts_.padding);
  return out;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string_view> texts,
                                              const EncodeOptions& options,
                                              ThreadPool* pool) const {
  std::vector<Encoding> out(texts.size());
  const auto count = static_cast<int64_t>(texts.size());
  const int threads = pool != nullptr ? pool->threads() : 1;
  const int64_t grain = std::clamp<int64_t>(count / (int64_t{threads} * 16), 1, 64);
  parallel_for(pool, count, grain, [&](int64_t begin, int64_t end) {
    const Lease scratch(*this);
    for (int64_t i = begin; i < end; ++i) {
      out[static_cast<size_t>(i)] =
          encode_one(texts[static_cast<size_t>(i)], nullptr, options, *scratch);
    }
  });
  if (parts_.padding && options.truncate_and_pad) pad(out, *parts_.padding);
  return out;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  std::string text;
  DecodeBuffers buffers;
  decode(ids, skip_special_tokens, text, buffers);
  return text;
}

void Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens, std::string& text,
                       DecodeBuffers& buffers) const {
  if (parts_.id_decoder != nullptr) {
    text = parts_.id_decoder->decode(ids, skip_special_tokens);
    return;
  }
  const AddedTokens& added = parts_.added_tokens;
  const Vocabulary& vocabulary = parts_.model->vocabulary();
  auto& [bytes, joined, tokens] = buffers;
  joined.clear();
  size_t count = 0;
  for (const uint32_t id : ids) {
    const std::string* known = added.empty() ? nullptr : added.decoded(id);
    if (known == nullptr && !parts_.model->has(id)) continue;
    if (joins_bytes_ && known == nullptr && vocabulary.is_bytes(id)) {
      joined += vocabulary.stored(id);
      continue;
    }
    if (count == tokens.size()) tokens.emplace_back();
    std::string& token = tokens[count];
    if (known != nullptr) {
      token = *known;
    } else {
      parts_.model->read_token(id, token);
    }
    if (skip_special_tokens && added.is_special(token)) continue;
    if (joins_bytes_) {
      joined += bytes_of_byte_level(token, bytes) ? bytes : token;
    } else {
      ++count;
    }
  }
  text.clear();
  if (joins_bytes_) {
    append_valid_utf8(joined, text);
    return;
  }
  tokens.resize(count);
  if (parts_.decoder != nullptr) apply_decoder(tokens);
  const std::string_view separator = parts_.decoder != nullptr ? "" : " ";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += separator;
    text += tokens[i];
  }
}

size_t Tokenizer::size() const {
  size_t extra = 0;
  for (const auto& [id, token] : parts_.added_tokens.tokens()) {
    if (parts_.model->vocabulary().find(token.content) == kNoId) ++extra;
  }
  return parts_.model->size() + extra;
}

uint32_t Tokenizer::token_to_id(std::string_view token) const {
  const uint32_t id = parts_.added_tokens.find(token);
  return id != kNoId ? id : parts_.model->vocabulary().find(token);
}

std::optional<std::string> Tokenizer::id_to_token(uint32_t id) const {
  if (const std::string* token = parts_.added_tokens.decoded(id)) return *token;
  if (!parts_.model->has(id)) return std::nullopt;
  return parts_.model->token(id);
}

void Tokenizer::check_ids(std::span<const uint32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_known =
        parts_.added_tokens.decoded(ids[i]) != nullptr || parts_.model->has(ids[i]);
    check(is_known, ErrorKind::invalid_argument,
          "token {} (number {}) is not in the vocabulary of {} tokens", ids[i], i, size());
  }
}

std::string Tokenizer::special_token(std::string_view name) const {
  const auto it = parts_.special_tokens.find(std::string(name));
  return it == parts_.special_tokens.end() ? std::string() : it->second;
}

}  // namespace lathe::tokenizer
