// SPDX-License-Identifier: MIT
// A tokenizer: text to ids and back.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/encoding.h"
#include "llm/tokenizer/model.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/post_processor.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace lathe::tokenizer {

// Decoding that needs to know the ids, not their texts only (SentencePiece).
class IdDecoder {
 public:
  virtual ~IdDecoder() = default;
  virtual std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens) const = 0;
};

// What a tokenizer is made of; only the model must be there.
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
  // "bos_token", "eos_token", …: what the folder's configuration calls them.
  std::map<std::string, std::string> special_tokens;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  bool detailed = false;         // more than ids
  bool replace_invalid = false;  // ill-formed UTF-8 becomes U+FFFD; otherwise it is an error
  bool special_as_text = false;  // special tokens in the text are text
  bool truncate_and_pad = true;  // as the file says
};

// Immutable; may be used by many threads.
class Tokenizer {
 public:
  explicit Tokenizer(Parts parts);
  ~Tokenizer();

  // InvalidArgument with the offset for text that is not UTF-8.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;
  // Through the pool, if there is one; in the order of the texts, padded to one length.
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts,
                                     const EncodeOptions& options = {},
                                     ThreadPool* pool = nullptr) const;

  // Ids that nobody knows are left out.
  std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens = true) const;
  // The same, which becomes all of `text`. With buffers that are kept, decoding that is putting
  // bytes together allocates nothing.
  struct DecodeBuffers {
    std::string bytes, joined;
    std::vector<std::string> tokens;
  };
  void decode(std::span<const uint32_t> ids, bool skip_special_tokens, std::string& text,
              DecodeBuffers& buffers) const;

  // Of all tokens, added ones included.
  size_t size() const;
  uint32_t token_to_id(std::string_view token) const;  // kNoId if there is none
  std::optional<std::string> id_to_token(uint32_t id) const;
  bool is_special(uint32_t id) const { return parts_.added_tokens.is_special(id); }
  // Empty if the configuration names none.
  std::string special_token(std::string_view name) const;
  const Parts& parts() const { return parts_; }
  // Words met before are forgotten: what benchmarks call cold.
  void forget_words() const;

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

  Parts parts_;
  bool needs_map_ = false;
  bool joins_bytes_ = false;  // decoding is putting bytes together
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> scratches_;  // that nobody uses now
};

}  // namespace lathe::tokenizer
