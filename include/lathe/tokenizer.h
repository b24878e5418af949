// SPDX-License-Identifier: MIT
// Tokenizers in C++: inline wrappers over the table of lathe.h.
//
//   lathe::Tokenizer tokenizer("model/");
//   std::vector<uint32_t> ids = tokenizer.encode("Hello, world!").ids();
//   std::string text = tokenizer.decode(ids);
//
//   lathe::DecodeStream stream(tokenizer);
//   lathe::StopStrings stops({"\nUser:"});
//   for (uint32_t id : generated) {
//     std::cout << stops.push(stream.step(id));
//     if (stops.found() >= 0) break;
//   }
//
// Errors throw lathe::Error; for invalid UTF-8 the message has the offset of the first invalid
// byte. Any number of threads may use a tokenizer; a stream or stop strings serve one thread at a
// time. lathe.h describes the function behind each member.
#pragma once

#include <initializer_list>
#include <optional>

#include "lathe/lathe.hpp"

namespace lathe {
inline namespace v1 {

namespace detail {
inline lathe_text text_of(std::string_view text) { return {text.data(), text.size()}; }
inline void append(void* to, const char* text, size_t bytes) {
  static_cast<std::string*>(to)->append(text, bytes);
}
template <class T>
struct FreeTokenizer {
  void operator()(T* handle) const {
    if constexpr (std::is_same_v<T, lathe_tokenizer>) api().tokenizer_free(handle);
    if constexpr (std::is_same_v<T, lathe_encoding>) api().encoding_free(handle);
    if constexpr (std::is_same_v<T, lathe_decode_stream>) api().decode_stream_free(handle);
    if constexpr (std::is_same_v<T, lathe_stop_strings>) api().stop_strings_free(handle);
  }
};
template <class T>
using TokenizerHandle = std::unique_ptr<T, FreeTokenizer<T>>;
}  // namespace detail

// Options of encoding. Default: the settings of the tokenizer's file, ids alone.
struct EncodeOptions {
  bool no_special_tokens = false;  // adds no special tokens
  bool with_offsets = false;       // also records type ids, offsets, words, masks and tokens
  bool replace_invalid = false;    // invalid UTF-8 becomes U+FFFD; by default it is an error
  bool special_as_text = false;    // special tokens in the text are encoded as plain text
  bool no_padding = false;         // neither truncates nor pads
  int threads = 1;                 // of a batch

  lathe_encode_options c() const {
    auto out = detail::init<lathe_encode_options>();
    out.no_special_tokens = no_special_tokens;
    out.with_offsets = with_offsets;
    out.replace_invalid = replace_invalid;
    out.special_as_text = special_as_text;
    out.no_padding = no_padding;
    out.threads = threads;
    return out;
  }
};

// The tokens of a text. Each vector has one entry per token; all but ids() are empty without
// `with_offsets`.
class Encoding {
 public:
  explicit Encoding(lathe_encoding* handle) : owned_(handle), handle_(handle) {}

  size_t size() const { return api().encoding_count(handle_); }
  std::vector<uint32_t> ids() const { return list(api().encoding_ids(handle_)); }
  // 0, or 1 for the second text of a pair.
  std::vector<uint32_t> type_ids() const { return list(api().encoding_type_ids(handle_)); }
  // In characters of the text.
  std::vector<lathe_range> offsets() const { return list(api().encoding_offsets(handle_)); }
  // Index of the word, or -1.
  std::vector<int64_t> words() const { return list(api().encoding_words(handle_)); }
  // 1 for special tokens.
  std::vector<uint8_t> special_tokens_mask() const {
    return list(api().encoding_special_tokens_mask(handle_));
  }
  // 0 for padding.
  std::vector<uint8_t> attention_mask() const {
    return list(api().encoding_attention_mask(handle_));
  }
  std::vector<std::string> tokens() const {
    std::vector<std::string> out;
    for (lathe_text text = api().encoding_token(handle_, 0); text.data != nullptr;
         text = api().encoding_token(handle_, out.size())) {
      out.emplace_back(text.data, text.bytes);
    }
    return out;
  }
  // The truncated remainder in pieces, valid as long as this encoding.
  std::vector<Encoding> overflowing() const {
    std::vector<Encoding> out;
    for (size_t i = 0; i < api().encoding_overflow_count(handle_); ++i) {
      out.push_back(Encoding(api().encoding_overflow(handle_, i)));
    }
    return out;
  }

 private:
  explicit Encoding(const lathe_encoding* borrowed) : handle_(borrowed) {}
  template <class T>
  std::vector<T> list(const T* values) const {
    return values == nullptr ? std::vector<T>() : std::vector<T>(values, values + size());
  }
  detail::TokenizerHandle<lathe_encoding> owned_;
  const lathe_encoding* handle_;
};

class Tokenizer {
 public:
  // Loads a folder, or a tokenizer.json, .model, .tiktoken, vocab.json, vocab.txt or GGUF file.
  // `pattern`: pre-tokenizer regex for tiktoken ranks of an unknown encoding. Io, InvalidModel.
  explicit Tokenizer(const std::string& path, const std::string& pattern = "") {
    auto options = detail::init<lathe_tokenizer_options>();
    options.pattern = pattern.c_str();
    lathe_tokenizer* made = nullptr;
    check(api().tokenizer_load(path.c_str(), &options, &made));
    handle_.reset(made);
  }
  // Loads the bytes of such a file, which are not retained; `name`: for messages.
  static Tokenizer from_memory(std::span<const std::byte> bytes, const std::string& name = "") {
    lathe_tokenizer* made = nullptr;
    check(api().tokenizer_load_memory(bytes.data(), bytes.size(), name.c_str(), nullptr, &made));
    return Tokenizer(made);
  }

  static Tokenizer from_handle(lathe_tokenizer* handle) { return Tokenizer(handle); }  // owns it

  // InvalidArgument for invalid UTF-8.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const {
    return encode(text, nullptr, options);
  }
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const {
    const lathe_text pair = detail::text_of(second);
    return encode(first, &pair, options);
  }
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts,
                                     const EncodeOptions& options = {}) const {
    std::vector<lathe_text> list;
    for (const std::string_view text : texts) list.push_back(detail::text_of(text));
    std::vector<lathe_encoding*> made(texts.size());
    const lathe_encode_options encode_options = options.c();
    check(api().tokenizer_encode_batch(get(), list.data(), list.size(), &encode_options,
                                       made.data()));
    std::vector<Encoding> out;
    for (lathe_encoding* encoding : made) out.emplace_back(encoding);
    return out;
  }
  std::string decode(std::span<const uint32_t> ids, bool keep_special_tokens = false) const {
    std::string out;
    check(api().tokenizer_decode(get(), ids.data(), ids.size(), keep_special_tokens, detail::append,
                                 &out));
    return out;
  }

  size_t size() const { return api().tokenizer_size(get()); }  // tokens, added ones included
  std::optional<uint32_t> token_to_id(std::string_view token) const {
    const uint32_t id = api().tokenizer_token_to_id(get(), detail::text_of(token));
    return id == UINT32_MAX ? std::nullopt : std::optional(id);
  }
  // InvalidArgument for an unknown id.
  std::string id_to_token(uint32_t id) const {
    std::string out;
    check(api().tokenizer_id_to_token(get(), id, detail::append, &out));
    return out;
  }
  // "bos_token", "eos_token", …; empty if the configuration names none.
  std::string special_token(const std::string& name) const {
    const char* token = api().tokenizer_special_token(get(), name.c_str());
    return token == nullptr ? "" : token;
  }
  const lathe_tokenizer* get() const { return handle_.get(); }

 private:
  explicit Tokenizer(lathe_tokenizer* handle) : handle_(handle) {}
  Encoding encode(std::string_view text, const lathe_text* pair,
                  const EncodeOptions& options) const {
    const lathe_encode_options encode_options = options.c();
    lathe_encoding* made = nullptr;
    check(api().tokenizer_encode(get(), detail::text_of(text), pair, &encode_options, &made));
    return Encoding(made);
  }
  detail::TokenizerHandle<lathe_tokenizer> handle_;
};

// Decodes ids incrementally: holds back incomplete characters, never changes returned text.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, bool keep_special_tokens = false) {
    lathe_decode_stream* made = nullptr;
    check(api().decode_stream_create(tokenizer.get(), keep_special_tokens, &made));
    handle_.reset(made);
  }
  std::string step(uint32_t id) {
    std::string out;
    check(api().decode_stream_step(handle_.get(), id, detail::append, &out));
    return out;
  }
  // Returns the held-back text and resets the stream.
  std::string finish() {
    std::string out;
    check(api().decode_stream_finish(handle_.get(), detail::append, &out));
    return out;
  }

 private:
  detail::TokenizerHandle<lathe_decode_stream> handle_;
};

// Finds the first of several stop strings in a text that arrives in pieces.
class StopStrings {
 public:
  explicit StopStrings(std::span<const std::string_view> strings) {
    std::vector<lathe_text> list;
    for (const std::string_view text : strings) list.push_back(detail::text_of(text));
    lathe_stop_strings* made = nullptr;
    check(api().stop_strings_create(list.data(), list.size(), &made));
    handle_.reset(made);
  }
  StopStrings(std::initializer_list<std::string_view> strings)
      : StopStrings(std::span(strings.begin(), strings.size())) {}

  // Returns the text that precedes every possible match; nothing after a match.
  std::string push(std::string_view text) {
    std::string out;
    check(api().stop_strings_push(handle_.get(), detail::text_of(text), detail::append, &out));
    return out;
  }
  // Ends the text and returns the held-back rest.
  std::string finish() {
    std::string out;
    check(api().stop_strings_finish(handle_.get(), detail::append, &out));
    return out;
  }
  int64_t found() const {
    return api().stop_strings_found(handle_.get());
  }  // index of the match, or -1

 private:
  detail::TokenizerHandle<lathe_stop_strings> handle_;
};

}  // namespace v1
}  // namespace lathe
