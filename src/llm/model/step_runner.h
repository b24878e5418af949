// SPDX-License-Identifier: MIT
// Runs a step of several sequences: tokens packed into one run, or one sequence per run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/model/embedder.h"
#include "llm/model/model_folder.h"
#include "llm/model/sequence.h"
#include "llm/model/started_step.h"
#include "llm/model/step_logits.h"
#include "llm/model/step_request.h"
#include "llm/model/token_chooser.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::llm {

// Makes a plan of a program.
using CompileProgram = std::function<std::shared_ptr<const Plan>(std::unique_ptr<Program> program,
                                                                 const CompileOptions& options)>;

struct RunnerOptions {
  std::shared_ptr<const Target> target{};  // null: ref
  Compute compute = Compute::as_model;     // of matrix multiplications by weights
  std::optional<ElementType> caches{};     // in place of f32, if tokens are packed
  ThreadPool* pool = nullptr;              // must outlive the runner
  int64_t page_slots = 16;
  PassOptions passes{};  // of all pipelines
  // Receives every kernel choice and may replace it.
  std::function<KernelChoice(const Instruction&, KernelChoice)> watch_kernels{};
  CompileProgram compile{};  // in place of lathe::compile(); null: none
};
// Compiles by `runner.compile` or by lathe::compile().
std::shared_ptr<const Plan> compile_by(const RunnerOptions& runner,
                                       std::unique_ptr<Program> program,
                                       const CompileOptions& options);

// A step that has run and is not committed: without commit() its sequences stay unchanged.
class PendingStep {
 public:
  virtual ~PendingStep() = default;
  virtual void commit() = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Whether tokens of all sequences share a run. Otherwise each request runs alone and unsplit,
  // since splitting it may change the program's results.
  virtual bool packed() const = 0;
  // Why tokens cannot be packed: the blocking instruction and its reason. Empty if packed.
  virtual const std::string& not_packed_reason() const = 0;
  // Advances all sequences or none. Requests have passed check_request(). Reuses the memory of
  // `logits`, whose content is undefined after a failure.
  virtual void run(std::span<const StepRequest> requests, const CancelToken* cancel,
                   StepLogits& logits) const = 0;
  // Runs without the commit, so that several runners' parts of a step commit together. The
  // requests must outlive the result. Unsupported for runners without this split.
  virtual std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                             const CancelToken* cancel, StepLogits& logits) const;

  // Whether start() may start steps.
  virtual bool starts() const { return false; }
  // Enqueues a step of one token each, and the choice of the next tokens from its logits, one of
  // each request in order, without waiting. `before`: the step whose choices are these tokens, of
  // the same sequences in the same order; null: the requests have them. Requests have passed
  // check_request(). Null, and nothing has run, where that is impossible now.
  virtual std::unique_ptr<StartedStep> start(std::span<const StepRequest> /*requests*/,
                                             std::span<const ChoiceRequest> /*choices*/,
                                             const StartedStep* /*before*/) const {
    return nullptr;
  }

  // Profiles later runs until null. Not thread-safe.
  virtual void profile(Profiler* profiler) { profiler_ = profiler; }

  int64_t vocabulary() const { return vocabulary_; }
  // Results beside logits and states that a request may return.
  const std::vector<ProgramOutput>& outputs() const { return outputs_; }
  // Limits of position ids, embeddings and tokens; the caller adds vocabulary and context.
  TokenLimits limits() const;
  // Sets the embedder of programs that take embeddings.
  virtual void set_embedder(std::shared_ptr<const Embedder> embedder) {
    embedder_ = std::move(embedder);
  }
  const std::shared_ptr<const CacheLayout>& layout() const { return layout_; }
  const TokenChooser& chooser() const { return *chooser_; }
  // Profiles later steps into it; null: none.
  Profiler* profiler() const { return profiler_; }
  // The plan; of two programs, the decode program's.
  const Plan& plan() const { return *plan_; }
  // The prefill program's plan where it is separate; else null.
  virtual const Plan* prompt_plan() const { return nullptr; }
  const std::optional<LongRopeSwitch>& length_switch() const { return switch_; }
  // Whether the request crosses the LongRoPE switch, so that all its tokens must run again.
  // InvalidArgument if they are unknown.
  bool must_rerun(const StepRequest& request) const;

 protected:
  // Compiles the program and finds the logits among its results.
  StepRunner(std::unique_ptr<Program> program, const DecoderInterface& names,
             std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options,
             std::optional<LongRopeSwitch> length_switch = {});
  // Delegating runner: has the properties of `token` and the outputs of both.
  // InvalidModel if vocabularies differ.
  StepRunner(const StepRunner& prompt, const StepRunner& token);

  bool is_long(int64_t length) const { return switch_ && length > switch_->max_short; }
  // A request that runs all tokens of a sequence again, with the results of another request.
  struct Rerun {
    Sequence sequence;
    std::vector<Token> tokens{};
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> positions{};
    std::vector<int64_t> logits{};
    StepRequest request{};
  };
  std::unique_ptr<Rerun> make_rerun(const StepRequest& request) const;
  // After the commit: stores the request's position ids, and its tokens if they may run again. A
  // rerun sequence replaces the request's.
  void remember(const StepRequest& request, Rerun* rerun) const;

  // Tokens of several requests, consecutive.
  struct TokenList {
    std::vector<int64_t> tokens{};
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> ends{};  // end of each request's tokens
    void add(const StepRequest& request);
    void clear();
  };
  // The program's embedding inputs, [1, tokens, …], by name.
  NamedTensors embed(const TokenList& list, const CancelToken* cancel) const;
  // Samples the requested tokens. Commits nothing.
  void sample(std::span<const StepRequest> requests, const StepLogits& logits,
              const CancelToken* cancel) const;

  const DecoderInterface names_;
  std::string no_positions_;  // why explicit position ids are refused; empty: accepted
  std::shared_ptr<const CacheLayout> layout_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
  std::optional<LongRopeSwitch> switch_;
  std::shared_ptr<const Embedder> embedder_;
  std::shared_ptr<const TokenChooser> chooser_;
  Profiler* profiler_ = nullptr;
  std::vector<ProgramOutput> outputs_;
  size_t logits_ = 0;  // among the results
  // Where results are made: the logits on the plan's device if its kernels write them.
  std::vector<const Device*> result_devices_;
  int64_t vocabulary_ = 0;  // 0: unknown
};

// A program and the names of its inputs and results.
struct NamedProgram {
  const Program* program = nullptr;
  DecoderInterface names{};
};

// Packed where pack_sequences proves the program token-wise, else one sequence per run.
// Unsupported, with the reason, if neither works.
std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& program,
                                             const RunnerOptions& options);
// Two programs over the same states: `prompt` runs requests of several tokens, `token` those of
// one.
std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& prompt, const NamedProgram& token,
                                             const RunnerOptions& options);
// Concatenates logits [n, vocabulary] of all parts. InvalidModel if vocabularies differ.
Tensor join_logits(std::span<const Tensor> parts);
// Elements [begin, begin + count) along an axis, dense. InvalidModel if there are fewer.
Tensor slice_along(const Tensor& tensor, int axis, int64_t begin, int64_t count);
// Concatenates along an axis. InvalidModel if other dimensions or element types differ.
Tensor join_along(std::span<const Tensor> parts, int axis);
// A dense tensor with these values, converted to `type`.
Tensor integer_tensor(ElementType type, Dims dims, std::span<const int64_t> values);

}  // namespace lathe::llm
