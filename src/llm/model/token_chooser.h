// SPDX-License-Identifier: MIT
// Chooses tokens of many sequences from their logits, by a program of one op on the decoder's
// target. Rules of search options become edits and masks here, from the sequences' tokens.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/object_pool.h"
#include "llm/model/step_logits.h"
#include "llm/search/sampling_block.h"
#include "runtime/session.h"
#include "targets/target.h"

namespace lathe::llm {

using search::Token;

// One sequence's choice.
struct ChoiceRequest {
  search::SamplingBlock block{};
  int64_t row = 0;        // index of its logits
  int64_t reported = -1;  // index of those whose log-probabilities are returned; -1: none
};

// Valid until the next call with it.
struct ChosenTokens {
  std::vector<Token> tokens{};             // -1: no token is left
  std::vector<float> log_probabilities{};  // of the tokens; 0 where none is reported
  // The most likely tokens of each sequence, best first: [sequences, likely], where it reports any.
  int64_t likely = 0;
  std::vector<Token> likely_tokens{};
  std::vector<float> likely_log_probabilities{};
};

// A choice that was enqueued; waits for the stream unless it is finished.
class StartedChoice {
 public:
  virtual ~StartedChoice() = default;
  // The stream has passed the choice: its results are there.
  virtual void finish() = 0;
};

class TokenChooser {
 public:
  TokenChooser(std::shared_ptr<const Target> target, ThreadPool* pool);
  ~TokenChooser();

  // Thread-safe.
  void choose(const StepLogits& logits, std::span<const ChoiceRequest> requests,
              ChosenTokens& chosen, const RunOptions& options = {}) const;
  // Enqueues a choice behind other work of `stream`, of the logits' device. Its tokens also become
  // `next`, dense on that device. `chosen` and the logits stay until its end. Null, and nothing has
  // run, where the device does not choose.
  std::unique_ptr<StartedChoice> start(const StepLogits& logits,
                                       std::span<const ChoiceRequest> requests,
                                       ChosenTokens& chosen, const TensorView& next,
                                       const std::shared_ptr<Stream>& stream,
                                       const RunOptions& options = {}) const;
  // InvalidArgument, with the reason, unless there is a token.
  static void check_chosen(Token token, const search::SamplingBlock& block);

 private:
  struct Scratch;
  class Started;
  struct Compiled {
    std::unique_ptr<Session> session;
    const Device* device = nullptr;  // whose memory the logits may lie in, beside the host's
  };
  // `next`: the type of tokens that stay on the device; none: they do not.
  const Compiled& compiled_for(ElementType logits, std::optional<ElementType> next = {}) const;
  std::unique_ptr<Scratch> prepare(const StepLogits& logits,
                                   std::span<const ChoiceRequest> requests,
                                   ChosenTokens& chosen) const;

  std::shared_ptr<const Target> target_;
  ThreadPool* pool_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<ElementType, std::optional<ElementType>>, Compiled> compiled_;
  mutable ObjectPool<Scratch> idle_;
};

}  // namespace lathe::llm
