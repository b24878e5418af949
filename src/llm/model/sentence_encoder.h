// SPDX-License-Identifier: MIT
// Embeddings of texts by an encoder: texts of any lengths share a run, without padding.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/model/sentence_config.h"
#include "llm/model/step_runner.h"
#include "llm/tokenizer/tokenizer.h"
#include "passes/quantize_weights.h"
#include "runtime/session.h"

namespace lathe::llm {

struct SentenceEncoderOptions {
  RunnerOptions runner{};
  WeightQuantisation quantize{};
};

// Immutable; any number of threads may use it.
class SentenceEncoder {
 public:
  // Opens a Hugging Face folder, of Sentence Transformers or without its files, or a GGUF file. Io,
  // InvalidModel, InvalidArgument for a decoder, Unsupported.
  explicit SentenceEncoder(const std::string& path, const SentenceEncoderOptions& options = {});

  int64_t size() const { return size_; }              // of an embedding
  int64_t max_tokens() const { return max_tokens_; }  // longer texts are truncated
  int64_t vocabulary() const { return vocabulary_; }
  const SentenceConfig& config() const { return config_; }
  const Plan& plan() const { return *plan_; }
  // The text of a prompt of the model; of the default one, or "", for an empty name.
  // InvalidArgument for unknown names.
  const std::string& prompt(std::string_view name) const;

  // f32 [texts, size()]. `prompt` precedes every text; white space around both together is
  // removed. InvalidArgument for text that is not UTF-8.
  Tensor encode(std::span<const std::string_view> texts, std::string_view prompt = {},
                const CancelToken* cancel = nullptr) const;
  // Embeddings of texts that are tokens already, special ones included, with the options of each
  // run but its outputs. InvalidArgument for a text of more than max_tokens().
  Tensor encode_tokens(std::span<const std::vector<uint32_t>> texts,
                       const RunOptions& options = {}) const;

 private:
  struct Text {
    std::vector<uint32_t> ids;
    int64_t prompt = 0;  // first tokens that are not pooled
  };
  // As the model expects it: without white space around it, in lower case or not.
  std::string prepared(std::string_view text) const;
  // The prompt's own tokens and the special ones before it, if they are not pooled.
  std::vector<uint32_t> unpooled(std::string_view prompt) const;
  std::vector<Text> tokenise(std::span<const std::string_view> texts,
                             std::string_view prompt) const;
  void truncate(std::string_view text, std::vector<uint32_t>& ids) const;
  Tensor embed(std::span<const Text> texts, const RunOptions& options) const;
  void run(std::span<const Text> texts, float* pooled, const RunOptions& options) const;
  int64_t pooled_size() const { return hidden_ * std::ssize(config_.pooling); }

  SentenceConfig config_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<const tokenizer::Normalizer> lower_case_;  // null: texts stay as they are
  ThreadPool* pool_;
  int64_t hidden_ = 0;
  int64_t size_ = 0;
  int64_t max_tokens_ = 0;
  int64_t vocabulary_ = 0;
  int64_t first_position_ = 0;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Session> head_;  // dense layers; null: none
};

}  // namespace lathe::llm
