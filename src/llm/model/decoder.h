// SPDX-License-Identifier: MIT
// A model folder and its compiled decoder, which runs steps of many sequences.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "llm/model/encoder.h"
#include "llm/model/model_folder.h"
#include "llm/model/model_size.h"
#include "llm/model/step_runner.h"
#include "passes/quantize_weights.h"

namespace lathe::llm {

struct DecoderOptions : RunnerOptions {
  std::string overlay{};                           // JSON merged into the configuration
  std::shared_ptr<const Target> encoder_target{};  // null: `target`
  MemoryFiles files{};                             // take precedence over the folder's files
  int64_t memory_limit = 0;                        // bytes of KV caches and states; 0: none
  // Called with the model's memory needs before any allocation.
  std::function<void(const ModelSize&)> measured{};
  LoadedProgram loaded{};         // of ModelFolder::watch()
  WeightQuantisation quantize{};  // of float weights; not of compiled files
};

// One state of a decoder's sequences.
struct StateNote {
  std::string name;
  StateKind kind = StateKind::append;
  int64_t window = 0;  // positions; 0: all
  bool paged = false;  // shared by page; otherwise one tensor per sequence
};

// How a decoder runs, and why.
struct DecoderNotes {
  bool packed = false;
  bool phased = false;            // separate prefill and decode programs
  std::string not_packed_reason;  // why tokens cannot be packed
  // Whether the folder has an embedding program, and why its tokens cannot be packed.
  bool embeds = false;
  std::string embedding_not_packed_reason;
  std::vector<StateNote> states;
};
// Text for display, one fact a line.
std::string to_string(const DecoderNotes& notes);

class Decoder {
 public:
  // Opens a folder of ONNX Runtime GenAI or Hugging Face, a GGUF file or a compiled file. Io,
  // InvalidModel, or Unsupported with the reason.
  Decoder(const std::string& folder, const DecoderOptions& options = {});
  // The folder is open: the options' overlay and files have no effect.
  Decoder(ModelFolder folder, const DecoderOptions& options);
  ~Decoder();

  const GenaiConfig& config() const { return folder_.config(); }
  const std::string& folder() const { return folder_.path(); }
  // Folder of the tokenizer and the chat template.
  Folder beside() const { return folder_.beside(); }
  int64_t vocabulary() const { return vocabulary_; }
  const CacheLayout& layout() const { return *runner_->layout(); }
  Sequence new_sequence() const { return Sequence(runner_->layout()); }
  // The decoder's plan; of two programs, the decode plan.
  const Plan& plan() const { return runner_->plan(); }
  // The prefill plan; null: same as plan().
  const Plan* prompt_plan() const { return runner_->prompt_plan(); }
  // False: one sequence per run, and a request's tokens must not be split.
  bool packed() const { return runner_->packed(); }
  // Tokens of a prompt that a step runs where nothing else decides.
  int64_t prompt_tokens() const;
  // Limits of requests.
  const TokenLimits& limits() const { return limits_; }
  // Outputs beside logits and states that a request may return.
  const std::vector<ProgramOutput>& outputs() const { return runner_->outputs(); }
  DecoderNotes notes() const;
  const ModelSize& size() const { return size_; }
  // Chooses tokens from logits of steps.
  const TokenChooser& chooser() const { return runner_->chooser(); }
  Profiler* profiler() const { return runner_->profiler(); }
  // Profiles later steps until null. Not thread-safe.
  void profile(Profiler* profiler) const { runner_->profile(profiler); }
  int64_t memory_limit() const { return memory_limit_; }
  // OutOfMemory if a sequence of `tokens` tokens exceeds the memory limit or the available memory.
  // It holds `own` bytes; other sequences hold `others` bytes.
  void check_room(int64_t tokens, int64_t own, int64_t others) const;
  // Encoder inputs that a sequence requires before its first token; empty without an encoder.
  std::vector<std::string> model_inputs() const;
  // Unsupported for inputs and outputs of vision and audio programs.
  void refuse_media(std::string_view input) const;
  // Type of a model input in the encoder's file. InvalidArgument for other names.
  const Type& model_input_type(const std::string& name) const;
  // Runs the encoder for an empty sequence. InvalidArgument for an input that is missing, unknown,
  // or of another type.
  void encode(Sequence& sequence, const NamedTensors& inputs,
              const CancelToken* cancel = nullptr) const;

  // Runs the new tokens of all sequences and returns the requested logits, copied to the host as
  // f32 [requested, vocabulary], in order. Thread-safe for distinct sequences. A step that fails or
  // is cancelled changes no sequence. InvalidArgument for a repeated sequence and for requests that
  // check_request() refuses.
  Tensor step(std::span<const StepRequest> requests, const CancelToken* cancel = nullptr) const;
  // The logits stay where the program writes them. Reuses the memory of `logits`, whose content is
  // undefined after a failure. A packed step of as many tokens as the last one allocates only
  // pages.
  void step(std::span<const StepRequest> requests, StepLogits& logits,
            const CancelToken* cancel = nullptr) const;
  // As StepRunner's.
  bool starts() const { return runner_->starts(); }
  std::unique_ptr<StartedStep> start(std::span<const StepRequest> requests,
                                     std::span<const ChoiceRequest> choices,
                                     const StartedStep* before) const {
    return runner_->start(requests, choices, before);
  }

 private:
  void check_requests(std::span<const StepRequest> requests) const;
  std::unique_ptr<Program> load_embedding(const DecoderInterface& names) const;
  void set_limits();

  ModelFolder folder_;
  int64_t vocabulary_ = 0;
  ModelSize size_;
  int64_t memory_limit_ = 0;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Encoder> encoder_;          // null: decoder-only
  std::shared_ptr<const Embedder> embedder_;  // null: no embedding program
  TokenLimits limits_;
};

}  // namespace lathe::llm
