// SPDX-License-Identifier: MIT
// Generates tokens for several prompts. Each has its own options and history; one step serves all.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "llm/model/decoder.h"
#include "llm/model/text_stream.h"
#include "llm/search/beam_search.h"
#include "llm/search/log_probabilities.h"
#include "llm/search/sampling_block.h"

namespace lathe::llm {

enum class FinishReason : uint8_t { none, stop, length };
// "stop": an end token or a stop string; "length": the length limit.
std::string_view to_string(FinishReason reason);

// Result of one sequence.
struct Output {
  std::vector<Token> tokens;  // prompt and generated tokens, with the end token
  size_t prompt = 0;
  FinishReason reason = FinishReason::none;
  float score = 0;   // of beams
  std::string text;  // generated text without the stop string; empty without a tokenizer
  // One for each generated token, from unprocessed logits; filled if options.log_probabilities > 0.
  std::vector<search::Choice> choices;

  std::span<const Token> generated() const { return std::span(tokens).subspan(prompt); }
};

// Part of a prompt: tokens, or embeddings in their place.
struct PromptPart {
  std::span<const Token> tokens{};
  Embeddings embeddings{};
  // Explicit position ids, [tokens] or [3, tokens]; empty: consecutive.
  std::span<const int64_t> positions{};
};

// State of a prompt with one sequence, to continue it as another prompt.
struct PromptState {
  Sequence sequence;  // a fork (shares pages until written); at least one token has not run
  std::vector<Token> tokens{};
  std::vector<EmbeddedTokens> embedded{};  // embeddings in place of tokens
  Positions positions{};                   // explicit ones
  size_t prompt = 0;
  FinishReason reason = FinishReason::none;
  std::vector<search::Choice> choices{};
};

class Generator {
 public:
  // With a tokenizer, outputs have text and stop strings end sequences.
  explicit Generator(std::shared_ptr<const Decoder> decoder,
                     std::shared_ptr<const tokenizer::Tokenizer> tokenizer = nullptr);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Adds a prompt and returns its index. Tokens may be empty and follow by append_tokens().
  // InvalidArgument for contradicting options or a prompt as long as the limit.
  size_t add(std::span<const Token> prompt, const search::SearchOptions& options);
  // Adds a prompt of tokens and embeddings.
  size_t add_parts(std::span<const PromptPart> parts, const search::SearchOptions& options);
  // Continues the state of a prompt of any generator of this decoder; returns its index. The
  // options are its own: equal options and seeds produce equal tokens. A larger length limit
  // resumes a prompt that reached its limit. InvalidArgument for beams after generated tokens, and
  // for log-probabilities if those of the generated tokens are missing.
  size_t add(PromptState state, const search::SearchOptions& options);
  // InvalidArgument with beams or several samples.
  PromptState state(size_t prompt) const;
  const search::SearchOptions& options(size_t prompt) const;
  // Sets one of the decoder's model_inputs(), before the prompt's first generated token. The last
  // one set runs the encoder.
  void set_model_input(size_t prompt, const std::string& name, Tensor tensor);
  // Sets the input of all prompts, concatenated along axis 0. Adds the prompts with these options
  // if there are none. InvalidArgument if the number of parts differs from prompts().
  void set_model_input(const std::string& name, const Tensor& batch,
                       const search::SearchOptions& options);
  // Appends tokens to a prompt that is done or has not begun, such as a second chat turn.
  // InvalidArgument with beams.
  void append_tokens(size_t prompt, std::span<const Token> tokens);
  // Appends tokens and embeddings. tokens() lists embeddings as negative numbers from the hash of
  // their content. InvalidArgument if the decoder accepts none.
  void append_parts(size_t prompt, std::span<const PromptPart> parts);
  // Replaces a prompt by a new rendering of the conversation. Keeps the longest prefix in common
  // with the tokens that have run, as far back as the states can rewind. Embeddings in that prefix
  // stay; `tokens` lists them as tokens() does.
  void replace_tokens(size_t prompt, std::span<const Token> tokens);
  // Replaces tokens and embeddings. Embeddings are equal if their hashes and position ids are.
  void replace_parts(size_t prompt, std::span<const PromptPart> parts);
  // Drops tokens from `length` on; the next token is sampled again. States that cannot rewind
  // restart at their last checkpoint before `length`: the start of a prompt or an answer.
  void rewind_to(size_t prompt, size_t length);

  // Generates one token for each prompt that is not done. Returns false once all are. Cancellation
  // and errors change nothing. If a hook throws, earlier prompts keep their token and the next call
  // samples the others.
  bool generate_next_token(const CancelToken* cancel = nullptr,
                           std::optional<Clock::time_point> deadline = std::nullopt);
  bool done() const;
  // Runs pending tokens; logits() then hold the distribution of the next token.
  void compute_logits(const CancelToken* cancel = nullptr,
                      std::optional<Clock::time_point> deadline = std::nullopt);
  // Whether the prompt's logits are ready and no token has been sampled from them.
  bool waiting(size_t prompt) const;
  // Replaces the logits of the next token: f32 [vocabulary] for the first sequence, or those of all
  // live sequences in the layout of all_logits().
  void set_logits(size_t prompt, std::span<const float> logits);

  // Restricts the prompt's next token to the set bits, bit t % 32 of word t / 32 for token t. Valid
  // for one token; a rewind drops it. Empty: all tokens. InvalidArgument for a mask without tokens
  // or of another length than the vocabulary, and with beams or several samples.
  void set_token_mask(size_t prompt, std::span<const uint32_t> mask);

  size_t prompts() const { return prompts_.size(); }
  // Sequences of a prompt, best first: one, or num_return_sequences samples or beams. Until they
  // are done, all live beams, without scores.
  std::vector<Output> outputs(size_t prompt) const;
  // Tokens of a prompt's first sequence with the prompt, and the generated text that no later token
  // changes. Valid until the next call.
  std::span<const Token> tokens(size_t prompt) const;
  std::string_view text(size_t prompt) const;
  // f32 [vocabulary], unprocessed, from the last step of the prompt's first live sequence.
  std::span<const float> logits(size_t prompt) const;
  // f32 [sequences, vocabulary] of that step, for each live sequence. One until samples or beams
  // have diverged.
  std::span<const float> all_logits(size_t prompt) const;
  // f32 [sequences, tokens, vocabulary], unprocessed: the logits of all tokens of the prompt's last
  // step. Runs appended tokens, not a generated one; several tokens run again.
  Tensor step_logits(size_t prompt);
  // An output of the model by its name in the file; runs pending tokens. States, by past or present
  // name: all tokens of the prompt's first sequence in the file's layout, batch 1. Others: the
  // tokens of the prompt's last step; if the program is not packed, the output of its last run.
  // InvalidArgument for unknown names, and before a prompt's first token.
  Tensor output(size_t prompt, const std::string& name);
  // Runs before a token is sampled; may change the logits [vocabulary].
  using Hook =
      std::function<void(size_t prompt, std::span<const Token> tokens, std::span<float> logits)>;
  void set_hook(Hook hook) { hook_ = std::move(hook); }

  // Tokens run so far, prompts included.
  int64_t tokens_run() const { return tokens_run_; }
  size_t pages() const;  // held by live sequences; a shared page counts for each

 private:
  struct Branch;
  struct Extras;
  struct Prompt;
  // Memory that a StepRequest points to.
  struct Inputs {
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> positions{};
    void attach_to(StepRequest& request) const {
      request.embedded = embedded;
      request.positions = positions;
    }
  };
  const Prompt& prompt_at(size_t prompt) const;
  Prompt& prompt_at(size_t prompt);
  std::unique_ptr<Prompt> new_prompt(const search::SearchOptions& options) const;
  void begin_text(const Prompt& prompt, Branch& branch) const;
  void keep_outputs(Prompt& prompt, NamedTensors& results) const;
  void check_extras(const Extras& extras) const;
  void replace(size_t prompt, std::vector<Token> tokens, Extras extras);
  void make_request(Branch& branch, size_t tokens, StepRequest& request, Inputs& inputs) const;
  void prefill(Prompt& prompt, const CancelToken* cancel,
               std::optional<Clock::time_point> deadline);
  void check_step(std::span<const StepRequest> requests);
  bool run_step(const CancelToken* cancel, std::optional<Clock::time_point> deadline);
  void keep_logits(std::span<Prompt* const> served);
  std::span<const float> logits_of(const Prompt& prompt) const;
  void add_choices(Prompt& prompt);
  void choose();
  void add_chosen(Prompt& prompt, size_t at);
  void sample_beams(Prompt& prompt);
  void add_token(Prompt& prompt, Branch& branch, Token token);
  // A step that was enqueued before its tokens were read or requested.
  struct Ahead {
    struct Row {
      Prompt* prompt;
      size_t branch;
    };
    Ahead();
    ~Ahead();
    std::vector<Row> rows{};
    std::vector<ChoiceRequest> choices{};
    std::unique_ptr<StartedStep> step{};
  };
  bool may_go_ahead(const Prompt& prompt, const Branch& branch, bool unread) const;
  void start_ahead(Ahead& ahead, const Ahead* before);
  std::unique_ptr<Ahead> next_ahead(const Ahead* before);
  void begin_ahead();
  void drop_ahead();
  bool is_next(const Ahead& ahead, std::vector<bool>& kept) const;
  void keep_ahead(const Ahead& ahead, const std::vector<bool>& kept);
  void go_on_ahead(const std::vector<bool>& kept);
  const Branch& only_branch(size_t prompt, std::string_view what) const;
  Branch& only_branch(size_t prompt, std::string_view what);
  int64_t held_bytes(const Prompt* except) const;
  void begin_turn(Prompt& prompt, size_t length, const Extras& extras) const;
  int64_t longest(const Prompt& prompt, const Extras& extras) const;
  // What the branch's next token is chosen by, without a mask. Refers to both.
  search::SamplingBlock block_of(const Prompt& prompt, const Branch& branch, size_t number) const;

  std::shared_ptr<const Decoder> decoder_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<Prompt>> prompts_;
  std::vector<Token> ends_;
  // Reused by consecutive steps.
  struct Scratch {
    std::vector<Prompt*> served;
    std::vector<StepRequest> requests;
    std::vector<Inputs> inputs;  // one for each request
    std::vector<NamedTensors> outputs;
    StepLogits logits;  // of the last step that returned any
    StepLogits next_logits;
    std::vector<float> values;
    std::vector<std::span<const float>> views;
    // Prompts whose tokens the next choice adds, and how many each has.
    std::vector<std::pair<Prompt*, size_t>> choosing;
    std::vector<ChoiceRequest> choices;
    bool choices_copy = false;  // their logits are in `copies`
    std::vector<float> copies;
    ChosenTokens chosen;
    std::vector<search::TokenLogProbability> likely;
  } scratch_;
  Hook hook_;
  int64_t tokens_run_ = 0;
  int64_t unchecked_bytes_ = 0;  // allocated since the last memory check
  int held_back_ = 0;            // steps before the next one ahead
  bool refuses_ahead_ = false;
  std::vector<bool> kept_;        // sequences of `ahead_`
  std::unique_ptr<Ahead> ahead_;  // last: it uses the prompts
};

}  // namespace lathe::llm
