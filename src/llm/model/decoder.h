// SPDX-License-Identifier: MIT
// A model folder opened: its configuration, and its decoder compiled to run rows of many sequences
// at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/config/genai_config.h"
#include "llm/model/sequence.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::llm {

using search::Token;

struct DecoderOptions {
  std::shared_ptr<const Target> target{};  // null: ref
  ThreadPool* pool = nullptr;              // must outlive the decoder
  std::string overlay{};                   // JSON merged into the configuration
  int64_t page_rows = 16;
};

// One sequence's share of a step.
struct StepRequest {
  Sequence* sequence = nullptr;
  std::span<const Token> tokens;
  bool all_logits = false;  // of every row; otherwise of the last
};

class Decoder {
 public:
  // Opens a folder with a genai_config.json. Io, InvalidModel, or Unsupported with what keeps the
  // model from running.
  Decoder(const std::string& folder, const DecoderOptions& options = {});
  ~Decoder();

  const GenaiConfig& config() const { return config_; }
  const std::string& folder() const { return folder_; }
  int64_t vocabulary() const { return vocabulary_; }
  const CacheLayout& layout() const { return *layout_; }
  Sequence new_sequence() const { return Sequence(layout_); }
  const Plan& plan() const { return *plan_; }

  // Runs the new rows of all sequences together and gives the wanted rows' logits, f32
  // [wanted, vocabulary], in order. Thread-safe for distinct sequences. A step that fails or is
  // cancelled leaves every sequence as it was. InvalidArgument for tokens outside the vocabulary, a
  // request without tokens, or more rows than the context holds.
  Tensor step(std::span<const StepRequest> requests, const CancelToken* cancel = nullptr) const;

 private:
  void open(const DecoderOptions& options);
  DecoderInterface interface(const Program& program) const;
  void check_requests(std::span<const StepRequest> requests) const;

  std::string folder_;
  GenaiConfig config_;
  int64_t vocabulary_ = 0;
  ElementType token_type_ = ElementType::i64;
  int position_rows_ = 0;  // 0: the program takes no positions
  ElementType position_type_ = ElementType::i64;
  std::shared_ptr<const CacheLayout> layout_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedSession> session_;
};

}  // namespace lathe::llm
