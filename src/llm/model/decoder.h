// SPDX-License-Identifier: MIT
// A model folder opened, and its decoder compiled to run steps of many sequences.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "llm/model/encoder.h"
#include "llm/model/model_size.h"
#include "llm/model/step_runner.h"

namespace lathe::llm {

struct DecoderOptions : RunnerOptions {
  std::string overlay{};                           // JSON merged into the configuration
  std::shared_ptr<const Target> encoder_target{};  // null: `target`
  MemoryFiles files{};                             // that stand before those of the folder
  int64_t memory_limit = 0;                        // bytes of caches and states; 0: none
  // Told what the model will take, before anything is allocated.
  std::function<void(const ModelSize&)> measured{};
};

// One state of a decoder's sequences.
struct StateNote {
  std::string name;
  StateKind kind = StateKind::append;
  int64_t window = 0;  // rows; 0: all
  bool paged = false;  // shared page by page; otherwise one tensor for each sequence
};

// How a decoder runs, and why.
struct DecoderNotes {
  bool packed = false;
  bool phased = false;            // prompts and single tokens run in programs of their own
  std::string not_packed_reason;  // what keeps rows from being packed
  // Tokens are embedded by a program of their own, and what keeps that one's rows from one run.
  bool embeds = false;
  std::string embedding_not_packed_reason;
  std::vector<StateNote> states;
};
// In lines, for people.
std::string to_string(const DecoderNotes& notes);

class Decoder {
 public:
  // Opens a folder with a genai_config.json. Io, InvalidModel, or Unsupported with what keeps the
  // model from running.
  Decoder(const std::string& folder, const DecoderOptions& options = {});
  ~Decoder();

  const GenaiConfig& config() const { return folder_.config(); }
  const std::string& folder() const { return folder_.path(); }
  int64_t vocabulary() const { return vocabulary_; }
  const CacheLayout& layout() const { return *runner_->layout(); }
  Sequence new_sequence() const { return Sequence(runner_->layout()); }
  // Of the decoder's program; of two, that for single tokens.
  const Plan& plan() const { return runner_->plan(); }
  // Of the program for prompts; null: it is the same.
  const Plan* prompt_plan() const { return runner_->prompt_plan(); }
  // Otherwise item by item: the tokens of a request are not to be cut.
  bool packed() const { return runner_->packed(); }
  // What requests may give.
  const TokenLimits& limits() const { return limits_; }
  // The program's outputs beside logits and states, which a request may want.
  const std::vector<ProgramOutput>& outputs() const { return runner_->outputs(); }
  DecoderNotes notes() const;
  const ModelSize& size() const { return size_; }
  // Times all steps from here on, until it is null: one thread's, with nobody else's beside them.
  void profile(Profiler* profiler) const { runner_->profile(profiler); }
  int64_t memory_limit() const { return memory_limit_; }
  // OutOfMemory if a sequence, which holds `own` bytes, cannot come to so many tokens beside
  // `others` bytes of others: within the memory limit, or in the memory that is available.
  void check_room(int64_t tokens, int64_t own, int64_t others) const;
  // What a sequence must be given before its first tokens: an encoder's inputs. None for decoders
  // alone.
  std::vector<std::string> model_inputs() const;
  // Unsupported for inputs and outputs of programs that see or hear, which do not run yet.
  void refuse_media(std::string_view input) const;
  // Of one of these, as the encoder's file has it; InvalidArgument for other names.
  const Type& model_input_type(const std::string& name) const;
  // Runs the encoder for a sequence without rows. InvalidArgument for an input that is missing,
  // unknown, or of another type.
  void encode(Sequence& sequence, const NamedTensors& inputs,
              const CancelToken* cancel = nullptr) const;

  // Runs the new rows of all sequences and gives the wanted rows' logits, f32 [wanted, vocabulary],
  // in order. Thread-safe for distinct sequences. A step that fails or is cancelled leaves every
  // sequence as it was. InvalidArgument for a sequence that takes part twice, and what
  // check_request() refuses.
  Tensor step(std::span<const StepRequest> requests, const CancelToken* cancel = nullptr) const;
  // The same into the logits of an earlier step, whose memory serves again if nobody else holds it:
  // a packed step of as many rows as the last then allocates nothing but pages.
  void step(std::span<const StepRequest> requests, Tensor& logits,
            const CancelToken* cancel = nullptr) const;

 private:
  void check_requests(std::span<const StepRequest> requests) const;
  std::unique_ptr<Program> load_embedding(const DecoderInterface& names) const;
  void set_limits();

  ModelFolder folder_;
  int64_t vocabulary_ = 0;
  ModelSize size_;
  int64_t memory_limit_ = 0;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Encoder> encoder_;          // null: a decoder alone
  std::shared_ptr<const Embedder> embedder_;  // null: the decoder's program takes tokens
  TokenLimits limits_;
};

}  // namespace lathe::llm
