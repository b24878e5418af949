// SPDX-License-Identifier: MIT
// How a decoder's programs run a step of several sequences: rows packed, or item by item.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/model/embedder.h"
#include "llm/model/model_folder.h"
#include "llm/model/sequence.h"
#include "llm/model/step_request.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::llm {

struct RunnerOptions {
  std::shared_ptr<const Target> target{};  // null: ref
  Compute compute = Compute::as_model;     // of weight products
  ThreadPool* pool = nullptr;              // must outlive the runner
  int64_t page_rows = 16;
};

// A step that has run, of which its sequences know nothing yet. Without commit() they stay as they
// were.
class PendingStep {
 public:
  virtual ~PendingStep() = default;
  virtual void commit() = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Rows of all sequences share a run. Otherwise each sequence has its own, the tokens of a request
  // whole, since cutting them may change what the program gives.
  virtual bool packed() const = 0;
  // What keeps rows from being packed: an instruction and why. Empty if they are.
  virtual const std::string& not_packed_reason() const = 0;
  // Logits of the wanted rows, f32 [wanted, vocabulary]. All sequences advance, or none. Requests
  // have passed check_request().
  virtual Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const = 0;
  // The same into the logits of an earlier step, whose memory serves again where it fits.
  virtual void run_into(std::span<const StepRequest> requests, const CancelToken* cancel,
                        Tensor& logits) const {
    logits = run(requests, cancel);
  }
  // The same, but for the end: several runners' parts of a step count together. The requests must
  // outlive what is given. Unsupported where a runner has no such halves.
  virtual std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                             const CancelToken* cancel, Tensor& logits) const;

  // Times all runs from here on, until it is null: for one thread's steps.
  virtual void profile(Profiler* profiler) { profiler_ = profiler; }

  int64_t vocabulary() const { return vocabulary_; }
  // Results beside logits and states, which a request may want.
  const std::vector<ProgramOutput>& outputs() const { return outputs_; }
  // Of positions, embeddings and tokens; the vocabulary and the context are the caller's to add.
  TokenLimits limits() const;
  // Makes embeddings of tokens, for programs that take those.
  virtual void set_embedder(std::shared_ptr<const Embedder> embedder) {
    embedder_ = std::move(embedder);
  }
  const std::shared_ptr<const CacheLayout>& layout() const { return layout_; }
  // Of two programs, that for single rows.
  const Plan& plan() const { return *plan_; }
  // Of the program that runs several rows of a sequence at once, where it has its own; else null.
  virtual const Plan* prompt_plan() const { return nullptr; }
  const std::optional<LongRopeSwitch>& length_switch() const { return switch_; }
  // Whether the request's caches were made with the tables of the other side of the switch: all
  // rows are to be run again. InvalidArgument if their tokens are not known.
  bool must_begin_anew(const StepRequest& request) const;

 protected:
  // Compiles the program and finds the logits among its results.
  StepRunner(std::unique_ptr<Program> program, const DecoderInterface& names,
             std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options,
             std::optional<LongRopeSwitch> length_switch = {});
  // Has others run its steps: knows what `token` does, and the outputs that both give. InvalidModel
  // if they differ in what they promise.
  StepRunner(const StepRunner& prompt, const StepRunner& token);

  bool is_long(int64_t length) const { return switch_ && length > switch_->max_short; }
  // A request for all rows of a sequence, earlier ones included, that wants what another one wants.
  struct Rerun {
    Sequence sequence;
    std::vector<Token> tokens{};
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> positions{};
    std::vector<int64_t> logits{};
    StepRequest request{};
  };
  std::unique_ptr<Rerun> make_rerun(const StepRequest& request) const;
  // After the commit: where the request's rows stand, and what they may have to be run again with.
  // A sequence that began anew takes the place of the request's.
  void remember(const StepRequest& request, Rerun* rerun) const;

  // Rows of several requests, one behind the other.
  struct TokenList {
    std::vector<int64_t> tokens{};
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> ends{};  // behind each request's rows
    void add(const StepRequest& request);
    void clear();
  };
  // What the program's inputs of embeddings get, [1, rows, …], by their names.
  NamedTensors embed(const TokenList& rows, const CancelToken* cancel) const;
  // Chooses the tokens that requests ask for; nothing is committed yet.
  static void choose(std::span<const StepRequest> requests, const Tensor& logits);

  const DecoderInterface names_;
  std::string no_positions_;  // why rows cannot be told where they stand; empty: they can
  std::shared_ptr<const CacheLayout> layout_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<SharedSession> session_;
  std::optional<LongRopeSwitch> switch_;
  std::shared_ptr<const Embedder> embedder_;
  Profiler* profiler_ = nullptr;
  std::vector<ProgramOutput> outputs_;
  size_t logits_ = 0;       // among the results
  int64_t vocabulary_ = 0;  // 0: the program does not say
};

// A program, and how it calls what a decoder takes and gives.
struct NamedProgram {
  const Program* program = nullptr;
  DecoderInterface names{};
};

// Packed where pack_sequences proves the program token-wise, else item by item. Unsupported, with
// the reason, if neither can run it.
std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& program,
                                             const RunnerOptions& options);
// Over one state: `prompt` runs the requests of several rows, `token` those of one.
std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& prompt, const NamedProgram& token,
                                             const RunnerOptions& options);
// Makes the tensor f32 [rows, columns] of any content: itself if it is so already, dense, and
// nobody else holds it.
void make_matrix(Tensor& tensor, int64_t rows, int64_t columns);
// f32 [rows, columns] of all parts, one behind the other. InvalidModel if columns differ.
Tensor join_rows(std::span<const Tensor> parts);
// Elements [begin, begin + count) along an axis, dense. InvalidModel if there are fewer.
Tensor cut_rows(const Tensor& tensor, int axis, int64_t begin, int64_t count);
// Parts one behind the other along an axis. InvalidModel if other extents or element types differ.
Tensor join_along(std::span<const Tensor> parts, int axis);
// A dense tensor of integers, or of numbers that stand for them.
Tensor integer_tensor(ElementType type, Dims dims, std::span<const int64_t> values);

}  // namespace lathe::llm
