// SPDX-License-Identifier: MIT
// A tokenizer converts text to token ids and back.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/encoding.h"
#include "llm/tokenizer/model.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/post_processor.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace lathe::tokenizer {

// Decodes ids instead of tokens' texts (SentencePiece).
class IdDecoder {
 public:
  virtual ~IdDecoder() = default;
  virtual std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens) const = 0;
};

// The parts of a tokenizer; only the model is required.
struct Parts {
  std::unique_ptr<Model> model;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<IdDecoder> id_decoder;
  AddedTokens added_tokens;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  // By their names in the folder's configuration: "bos_token", "eos_token", …
  std::map<std::string, std::string> special_tokens;
  std::string origin;  // the file, for messages; may be empty
};

struct EncodeOptions {
  bool add_special_tokens = true;
  bool detailed = false;         // fills all lists of Encoding
  bool replace_invalid = false;  // ill-formed UTF-8 becomes U+FFFD instead of an error
  bool special_as_text = false;  // special tokens in the text are ordinary text
  bool truncate_and_pad = true;  // with the file's settings
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  explicit Tokenizer(Parts parts);
  ~Tokenizer();

  // InvalidArgument, with the offset, for text that is not UTF-8.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;
  // Encodes in parallel if `pool` is not null. Results are in the order of the texts, padded to one
  // length.
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts,
                                     const EncodeOptions& options = {},
                                     ThreadPool* pool = nullptr) const;

  // Unknown ids are skipped; see check_ids().
  std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens = true) const;
  // Assigns the decoded text to `text`. With reused buffers, byte-level decoding does not allocate.
  struct DecodeBuffers {
    std::string bytes, joined;
    std::vector<std::string> tokens;
  };
  void decode(std::span<const uint32_t> ids, bool skip_special_tokens, std::string& text,
              DecodeBuffers& buffers) const;

  // The number of tokens, with added ones.
  size_t size() const;
  uint32_t token_to_id(std::string_view token) const;  // kNoId for an unknown one
  std::optional<std::string> id_to_token(uint32_t id) const;
  // InvalidArgument for an id without a token.
  void check_ids(std::span<const uint32_t> ids) const;
  bool is_special(uint32_t id) const { return parts_.added_tokens.is_special(id); }
  // "" if the configuration has no such token.
  std::string special_token(std::string_view name) const;
  const Parts& parts() const { return parts_; }
  // Clears the caches of words, for cold benchmarks.
  void clear_word_cache() const;

 private:
  struct Scratch;
  class Lease;
  void encode_text(std::string_view text, const EncodeOptions& options, uint32_t type_id,
                   Scratch& scratch, Encoding& out) const;
  void encode_section(const AlignedText& text, std::string_view original, Scratch& scratch,
                      Encoding& out) const;
  void add_token(const AlignedText& text, const Section& section, Scratch& scratch,
                 Encoding& out) const;
  void add_details(const AlignedText& text, Scratch& scratch, Encoding& out) const;
  Encoding encode_one(std::string_view first, const std::string_view* second,
                      const EncodeOptions& options, Scratch& scratch) const;
  void apply_decoder(std::vector<std::string>& tokens) const;
  void note_origin(Error& error) const;  // if the file is wrong

  Parts parts_;
  bool needs_map_ = false;
  bool joins_bytes_ = false;  // decoding concatenates bytes
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> scratches_;  // unused
};

}  // namespace lathe::tokenizer
