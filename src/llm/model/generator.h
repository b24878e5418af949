// SPDX-License-Identifier: MIT
// Prompts in, tokens out. Every prompt keeps its own options, history and end; one step serves them
// all.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "llm/model/decoder.h"
#include "llm/model/text_stream.h"
#include "llm/search/beam_search.h"
#include "llm/search/sampler.h"

namespace lathe::llm {

enum class FinishReason : uint8_t { none, stop, length };
// "stop": an end token or a stop string; "length": no room
std::string_view to_string(FinishReason reason);

// What one sequence has come to.
struct Output {
  std::vector<Token> tokens;  // prompt and generated, the end token included
  size_t prompt = 0;
  FinishReason reason = FinishReason::none;
  float score = 0;   // of beams
  std::string text;  // of the generated tokens, without a stop string; for generators of text
  // Of each generated token, by the logits as the model gave them, where the option asks for it.
  std::vector<search::Choice> choices;

  std::span<const Token> generated() const { return std::span(tokens).subspan(prompt); }
};

// A part of a prompt: tokens, or rows of embeddings instead.
struct PromptPart {
  std::span<const Token> tokens{};
  Embeddings embeddings{};
  // Where the rows stand, [rows] or [3, rows]; empty: one behind the other, on from those before.
  std::span<const int64_t> positions{};
};

// What a prompt's only sequence has come to, to go on from as another prompt.
struct PromptState {
  Sequence sequence;  // a fork: memory is shared until one writes. At least one token is to be run
  std::vector<Token> tokens{};
  std::vector<EmbeddedTokens> embedded{};  // rows that have no tokens
  Positions positions{};                   // that were told
  size_t prompt = 0;
  FinishReason reason = FinishReason::none;
  std::vector<search::Choice> choices{};
};

class Generator {
 public:
  // With a tokenizer, outputs have texts and stop strings end sequences.
  explicit Generator(std::shared_ptr<const Decoder> decoder,
                     std::shared_ptr<const tokenizer::Tokenizer> tokenizer = nullptr);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // A prompt with its options; gives its number. Tokens may be empty: they come with append_tokens.
  // InvalidArgument if options contradict each other or the prompt leaves no room for a token.
  size_t add(std::span<const Token> prompt, const search::SearchOptions& options);
  // The same of parts, rows of embeddings among them.
  size_t add_parts(std::span<const PromptPart> parts, const search::SearchOptions& options);
  // A prompt that goes on as another one stands, in this generator or another of the same decoder;
  // gives its number. Options of its own; with equal ones and seeds it comes to the same tokens.
  // One that ended for want of room goes on where they give it more. InvalidArgument if beams
  // should go on from tokens that were generated, and if log-probabilities of these are wanted and
  // not known.
  size_t add(PromptState state, const search::SearchOptions& options);
  // InvalidArgument with beams or several samples.
  PromptState state(size_t prompt) const;
  const search::SearchOptions& options(size_t prompt) const;
  // One of the decoder's model_inputs(), before the prompt's first token is generated; once all are
  // there, the encoder runs.
  void set_model_input(size_t prompt, const std::string& name, Tensor tensor);
  // The same for all prompts, whose parts lie one behind the other along the first axis. Makes the
  // prompts, with these options, if there are none. InvalidArgument for another number of parts.
  void set_model_input(const std::string& name, const Tensor& batch,
                       const search::SearchOptions& options);
  // More tokens of a prompt whose turn is over or that has not begun: a second turn. Not with
  // beams.
  void append_tokens(size_t prompt, std::span<const Token> tokens);
  // The same with rows of embeddings, which tokens() then lists as numbers below 0, made of their
  // content's hash. InvalidArgument where the decoder takes none.
  void append_parts(size_t prompt, std::span<const PromptPart> parts);
  // The tokens of a new rendering of the whole chat, prompt of the next turn included: the longest
  // prefix that is common with what was run is kept, as far back as the states reach. Embeddings in
  // that prefix stay, listed as tokens() does.
  void replace_tokens(size_t prompt, std::span<const Token> tokens);
  // The same of all parts: rows of embeddings are common where their hashes are, and where they
  // stand alike.
  void replace_parts(size_t prompt, std::span<const PromptPart> parts);
  // Forgets tokens from `length` on; the next token is chosen anew. States that cannot go back
  // begin again from their last checkpoint before `length`: where a turn or an answer began.
  void rewind_to(size_t prompt, size_t length);

  // One token for every prompt that is not done. False once all are. Cancellation and errors leave
  // everything as before the call; if a hook throws, prompts before that one have their token, and
  // the next call gives the others theirs.
  bool generate_next_token(const CancelToken* cancel = nullptr,
                           std::optional<Clock::time_point> deadline = std::nullopt);
  bool done() const;
  // Runs what has not been run: logits() are then those that the next token is chosen from.
  void compute_logits(const CancelToken* cancel = nullptr,
                      std::optional<Clock::time_point> deadline = std::nullopt);
  // Whether the next call chooses a token of the prompt by logits that are there.
  bool waiting(size_t prompt) const;
  // Chooses the next token of a prompt's first sequence from these instead, f32 [vocabulary], or
  // those of all its sequences that go on, as all_logits() has them.
  void set_logits(size_t prompt, std::span<const float> logits);

  // Only these tokens may be the prompt's next one, bit t % 32 of word t / 32 for token t; it is
  // forgotten once that is chosen, or the prompt goes back. Empty: all. InvalidArgument for a mask
  // that allows none or is not as long as the vocabulary, and with beams or several samples.
  void set_token_mask(size_t prompt, std::span<const uint32_t> mask);

  size_t prompts() const { return rows_.size(); }
  // Sequences of a prompt, best first: one, num_return_sequences samples, or as many beams.
  std::vector<Output> outputs(size_t prompt) const;
  // Tokens of a prompt's first sequence, prompt included, and the text of those generated as far as
  // it is certain. Valid until the next call.
  std::span<const Token> tokens(size_t prompt) const;
  std::string_view text(size_t prompt) const;
  // f32 [vocabulary] of the last step that served this prompt, as the model gave them: of the
  // prompt's first sequence that went on.
  std::span<const float> logits(size_t prompt) const;
  // f32 [rows, vocabulary] of the same step: a row for each sequence that went on. There is one
  // until samples or beams have parted.
  std::span<const float> all_logits(size_t prompt) const;
  // An output of the model by its file's name. States, by the names of their presents or pasts: all
  // rows of the prompt's first sequence as the file keeps them, batch 1. Others: the rows that the
  // last call ran for it; where the program is not packed, whatever its last run gave. Runs what
  // has not been run. InvalidArgument for other names, and before a prompt's first token.
  Tensor output(size_t prompt, const std::string& name);
  // Asked for before a token is chosen; may change the logits [vocabulary].
  using Hook =
      std::function<void(size_t prompt, std::span<const Token> tokens, std::span<float> logits)>;
  void set_hook(Hook hook) { hook_ = std::move(hook); }

  // Rows that were run so far, prompts included.
  int64_t tokens_run() const { return rows_run_; }
  size_t pages() const;  // that live sequences hold, each shared page counted for each

 private:
  struct Branch;
  struct Extras;
  struct Row;
  // What a request points to.
  struct Given {
    std::vector<EmbeddedTokens> embedded{};
    std::vector<int64_t> positions{};
    void give(StepRequest& request) const {
      request.embedded = embedded;
      request.positions = positions;
    }
  };
  const Row& row(size_t prompt) const;
  Row& row(size_t prompt);
  std::unique_ptr<Row> new_prompt(const search::SearchOptions& options) const;
  void begin_text(const Row& row, Branch& branch) const;
  void keep_outputs(Row& row, NamedTensors& given) const;
  void check_extras(const Extras& extras) const;
  void replace(size_t prompt, std::vector<Token> tokens, Extras extras);
  void ask_for(Branch& branch, size_t rows, StepRequest& request, Given& given) const;
  void prefill(Row& row, const CancelToken* cancel, std::optional<Clock::time_point> deadline);
  void check_step(std::span<const StepRequest> requests);
  bool run_step(const CancelToken* cancel, std::optional<Clock::time_point> deadline);
  void choose(Row& row);
  void choose_beams(Row& row);
  void take(Row& row, Branch& branch, Token token);
  const Branch& only_branch(size_t prompt, std::string_view what) const;
  Branch& only_branch(size_t prompt, std::string_view what);
  int64_t held_bytes(const Row* except) const;
  void begin_turn(Row& row, size_t length, const Extras& extras) const;
  int64_t longest(const Row& row, const Extras& extras) const;

  std::shared_ptr<const Decoder> decoder_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<Token> ends_;
  // Of one step after another: the rows that requests serve, what was chosen.
  struct Scratch {
    std::vector<Row*> served;
    std::vector<StepRequest> requests;
    std::vector<Given> given;  // of each request
    std::vector<NamedTensors> outputs;
    Tensor logits;
    std::vector<float> values;
    std::vector<Token> chosen;
    std::vector<std::span<const float>> views;
  } scratch_;
  Hook hook_;
  int64_t rows_run_ = 0;
  int64_t unchecked_bytes_ = 0;  // taken since memory was last asked for
};

}  // namespace lathe::llm
