// SPDX-License-Identifier: MIT
// Embeddings of texts in C++.
//
//   lathe::SentenceEncoder encoder("all-MiniLM-L6-v2/");
//   lathe::Tensor rows = encoder.encode(std::array{"A lathe cuts metal."});
//   std::span<float> first = rows.values<float>().first(encoder.size());
//
// Errors throw lathe::Error; lathe.h lists those of each function. Any number of threads may use an
// encoder.
#pragma once

#include "lathe/llm.h"

namespace lathe {
inline namespace v1 {

class SentenceEncoder {
 public:
  // A Hugging Face folder, of Sentence Transformers or without its files, a .gguf file, or
  // "org/name" in a Hugging Face cache.
  explicit SentenceEncoder(const std::string& path) : SentenceEncoder(Config(path)) {}
  // With its target, threads, compute type and quantisation.
  explicit SentenceEncoder(const Config& config) {
    lathe_sentence_encoder* made = nullptr;
    check(api().sentence_encoder_create(config.get(), &made));
    handle_.reset(made);
  }

  int64_t size() const { return api().sentence_encoder_size(get()); }  // of an embedding
  // Longer texts are truncated.
  int64_t max_tokens() const { return api().sentence_encoder_max_tokens(get()); }
  // A prompt of the model by its name; the default one, or "", for "".
  std::string prompt(const std::string& name = "") const {
    std::string out;
    check(api().sentence_encoder_prompt(get(), name.c_str(), detail::append, &out));
    return out;
  }

  // f32 [texts, size()], for a range of strings. `prompt` precedes every text.
  template <class Texts>
  Tensor encode(const Texts& texts, std::string_view prompt = {},
                const Cancel* cancel = nullptr) const {
    std::vector<lathe_text> given;
    for (const auto& text : texts) given.push_back(detail::text_of(text));
    lathe_tensor* made = nullptr;
    check(api().sentence_encoder_encode(get(), given.data(), given.size(), detail::text_of(prompt),
                                        cancel == nullptr ? nullptr : cancel->handle(), &made));
    return Tensor(made);
  }
  lathe_sentence_encoder* get() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(lathe_sentence_encoder* handle) const { api().sentence_encoder_free(handle); }
  };
  std::unique_ptr<lathe_sentence_encoder, Free> handle_;
};

}  // namespace v1
}  // namespace lathe
