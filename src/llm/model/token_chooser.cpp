// SPDX-License-Identifier: MIT
#include "llm/model/token_chooser.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "llm/model/choice_parameters.h"
#include "ops/support/choose_tokens.h"
#include "ops/support/views.h"
#include "plan/device_copies.h"
#include "targets/compile.h"

namespace lathe::llm {
namespace {

using Operand = ChoiceOperands::Operand;
using Result = ChoiceOperands::Result;

std::unique_ptr<Program> choosing_program(ElementType logits, std::optional<ElementType> next) {
  auto program = std::make_unique<Program>();
  program->name = "choose_tokens";
  const auto size = [&](std::string_view name) {
    return Dim(program->add_symbol(name, SymbolKind::bound, {0, kUnbounded}));
  };
  const Dim vocabulary = size("vocabulary");
  const Dim sequences = size("sequences");
  const Dim edits = size("edits");
  const std::vector<std::vector<Dim>> dims = {{size("rows"), vocabulary},
                                              {sequences, kChoiceIntegers},
                                              {sequences, kChoiceNumbers},
                                              {sequences + 1},
                                              {edits, 2},
                                              {edits},
                                              {size("ranks")},
                                              {size("masks"), Dim::ceil_div(vocabulary, 32)}};
  const Op& op = ops::choose_tokens;
  Module& main = program->main();
  std::vector<Value*> operands;
  for (size_t i = 0; i < dims.size(); ++i) {
    const ElementType element = i == Operand::logits        ? logits
                                : i == Operand::integers    ? ElementType::i64
                                : i == Operand::masks       ? ElementType::u32
                                : i == Operand::numbers     ? ElementType::f64
                                : i == Operand::edit_values ? ElementType::f64
                                                            : ElementType::i32;
    operands.push_back(main.add_parameter(Type::tensor(element, dims[i]), op.operands[i].name));
  }
  Builder builder(main);
  Instruction* chosen = builder.add(op, std::move(operands));
  std::vector<Value*> results;
  for (int i = 0; i < op.results; ++i) results.push_back(chosen->result(i));
  std::vector<std::string> names = {"tokens", "log_probabilities", "likely_tokens",
                                    "likely_log_probabilities"};
  if (next) {
    results.push_back(builder.cast(chosen->result(Result::tokens), *next));
    names.emplace_back("next");
  }
  main.set_results(std::move(results), std::move(names));
  return program;
}

template <class T>
Argument argument_of(ElementType type, std::span<T> values, std::initializer_list<int64_t> dims) {
  Argument argument;
  argument.view = dense_view(type, {dims.begin(), dims.size()}, values.data());
  return argument;
}

class ChoiceReceiver final : public Receiver {
 public:
  explicit ChoiceReceiver(ChosenTokens& chosen, TensorView next = {})
      : chosen_(chosen), next_(next) {}
  TensorView receive(int index, ElementType type, std::span<const int64_t> dims) override {
    switch (index) {
      case Result::tokens:
        return dense_view(type, dims, chosen_.tokens.data());
      case Result::log_probabilities:
        return dense_view(type, dims, chosen_.log_probabilities.data());
      case Result::likely_tokens:
        return dense_view(type, dims, chosen_.likely_tokens.data());
      case Result::likely_log_probabilities:
        return dense_view(type, dims, chosen_.likely_log_probabilities.data());
      default:
        return next_;
    }
  }
  void receive_box(int index, Box /*box*/) override {
    fail(ErrorKind::internal, "result {} of choose_tokens has no plain memory", index);
  }

 private:
  ChosenTokens& chosen_;
  TensorView next_;
};

}  // namespace

// Operands beside the logits, kept for the next call.
struct TokenChooser::Scratch {
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  std::vector<int32_t> edit_bounds;
  std::vector<int32_t> edits;
  std::vector<double> edit_values;
  std::vector<int32_t> ranks;
  std::vector<uint32_t> masks;
  search::LogitChanges changes;
  std::array<Argument, 8> arguments;  // of the program

  // Edits of histories grow with every token: room for those of most steps.
  Scratch() {
    constexpr size_t kEdits = 4096;
    changes.edits.reserve(kEdits);
    edit_values.reserve(kEdits);
    edits.reserve(2 * kEdits);
  }
  void clear() {
    integers.clear();
    numbers.clear();
    edit_bounds.assign(1, 0);
    edits.clear();
    edit_values.clear();
    masks.clear();
  }
  void add(const ChoiceRequest& request, int64_t vocabulary);
  int64_t add_mask(search::TokenMask mask, int64_t vocabulary);
};

// The index of the mask that combines the caller's with the forced tokens; -1: all tokens.
int64_t TokenChooser::Scratch::add_mask(search::TokenMask mask, int64_t vocabulary) {
  if (mask.empty() && !changes.forces) return -1;
  const auto words = static_cast<size_t>((vocabulary + 31) / 32);
  const size_t begin = masks.size();
  if (!changes.forces) {
    masks.insert(masks.end(), mask.begin(), mask.end());
  } else {
    masks.resize(begin + words);
    for (const Token token : changes.forced) {
      if (token < 0 || token >= vocabulary) continue;
      masks[begin + static_cast<size_t>(token / 32)] |= uint32_t{1} << token % 32;
    }
    for (size_t i = 0; i < mask.size(); ++i) masks[begin + i] &= mask[i];
  }
  return static_cast<int64_t>(begin / words);
}

void TokenChooser::Scratch::add(const ChoiceRequest& request, int64_t vocabulary) {
  const search::SamplingBlock& block = request.block;
  changes.clear();
  add_rules(block.history, *block.options, block.ends, block.longest, vocabulary, changes);
  for (const LogitEdit& edit : changes.edits) {
    edits.push_back(edit.token);
    edits.push_back(static_cast<int32_t>(edit.kind));
    edit_values.push_back(edit.value);
  }
  edit_bounds.push_back(static_cast<int32_t>(edit_values.size()));
  const ChoiceParameters p = choice_parameters(*block.options);
  const size_t at = integers.size();
  integers.resize(at + kChoiceIntegers);
  const auto set = [&](ChoiceInteger column, int64_t value) {
    integers[at + static_cast<size_t>(column)] = value;
  };
  set(ChoiceInteger::row, request.row);
  set(ChoiceInteger::sample, p.sample ? 1 : 0);
  set(ChoiceInteger::top_k, p.top_k);
  set(ChoiceInteger::seed, static_cast<int64_t>(block.seed));
  set(ChoiceInteger::sequence, static_cast<int64_t>(block.sequence));
  set(ChoiceInteger::position, std::ssize(block.history.tokens));
  set(ChoiceInteger::mask, add_mask(block.mask, vocabulary));
  set(ChoiceInteger::reported, request.reported);
  for (const double number :
       {p.temperature, p.top_p, p.min_p, p.typical_p, p.epsilon_cutoff, p.eta_cutoff}) {
    numbers.push_back(number);
  }
}

TokenChooser::TokenChooser(std::shared_ptr<const Target> target, ThreadPool* pool)
    : target_(std::move(target)), pool_(pool) {}

TokenChooser::~TokenChooser() = default;

const TokenChooser::Compiled& TokenChooser::compiled_for(ElementType logits,
                                                         std::optional<ElementType> next) const {
  const std::lock_guard lock(mutex_);
  Compiled& compiled = compiled_[{logits, next}];
  if (compiled.session == nullptr) {
    CompileOptions options;
    options.target = target_;
    options.pool = pool_;
    SessionOptions session_options;
    session_options.pool = pool_;
    const auto plan = compile(choosing_program(logits, next), options);
    if (reads_on_device(*plan, Operand::logits)) compiled.device = plan->device;
    compiled.session = std::make_unique<Session>(plan, session_options);
  }
  return compiled;
}

void TokenChooser::choose(const StepLogits& logits, std::span<const ChoiceRequest> requests,
                          ChosenTokens& chosen, const RunOptions& options) const {
  if (logits.device() != nullptr && logits.device() != compiled_for(logits.view().type).device) {
    return choose(StepLogits(logits.to_host()), requests, chosen, options);
  }
  std::unique_ptr<Scratch> scratch = prepare(logits, requests, chosen);
  ChoiceReceiver receiver(chosen);
  compiled_for(logits.view().type).session->run(scratch->arguments, receiver, options);
  idle_.release(std::move(scratch));
}

// The operands of a choice, and room for its results.
std::unique_ptr<TokenChooser::Scratch> TokenChooser::prepare(
    const StepLogits& logits, std::span<const ChoiceRequest> requests, ChosenTokens& chosen) const {
  const int64_t vocabulary = logits.vocabulary();
  std::unique_ptr<Scratch> scratch = idle_.acquire();
  if (scratch == nullptr) scratch = std::make_unique<Scratch>();
  scratch->clear();
  int64_t likely = 0;
  for (const ChoiceRequest& request : requests) {
    scratch->add(request, vocabulary);
    if (request.reported >= 0) {
      likely = std::max(likely, request.block.options->log_probabilities);
    }
  }
  likely = std::min(likely, vocabulary);
  scratch->ranks.resize(static_cast<size_t>(likely));
  std::iota(scratch->ranks.begin(), scratch->ranks.end(), 0);
  const auto sequences = std::ssize(requests);
  const auto edits = std::ssize(scratch->edit_values);
  const int64_t words = (vocabulary + 31) / 32;
  const auto masks = std::ssize(scratch->masks) / words;
  scratch->arguments = {
      Argument{logits.view(), nullptr},
      argument_of(ElementType::i64, std::span(scratch->integers), {sequences, kChoiceIntegers}),
      argument_of(ElementType::f64, std::span(scratch->numbers), {sequences, kChoiceNumbers}),
      argument_of(ElementType::i32, std::span(scratch->edit_bounds), {sequences + 1}),
      argument_of(ElementType::i32, std::span(scratch->edits), {edits, 2}),
      argument_of(ElementType::f64, std::span(scratch->edit_values), {edits}),
      argument_of(ElementType::i32, std::span(scratch->ranks), {likely}),
      argument_of(ElementType::u32, std::span(scratch->masks), {masks, words})};
  chosen.tokens.resize(requests.size());
  chosen.log_probabilities.resize(requests.size());
  chosen.likely = likely;
  chosen.likely_tokens.resize(requests.size() * static_cast<size_t>(likely));
  chosen.likely_log_probabilities.resize(chosen.likely_tokens.size());
  return scratch;
}

class TokenChooser::Started final : public StartedChoice {
 public:
  Started(const TokenChooser& chooser, std::unique_ptr<Scratch> scratch, ChosenTokens& chosen,
          const TensorView& next)
      : chooser_(chooser), scratch_(std::move(scratch)), receiver_(chosen, next) {}
  bool start(Session& session, const std::shared_ptr<Stream>& stream, const RunOptions& options) {
    run_ = session.start(scratch_->arguments, receiver_, options, stream);
    return run_ != nullptr;
  }
  void finish() override {
    run_->finish();
    run_ = nullptr;
    chooser_.idle_.release(std::move(scratch_));
  }

 private:
  const TokenChooser& chooser_;
  std::unique_ptr<Scratch> scratch_;
  ChoiceReceiver receiver_;
  std::unique_ptr<StartedRun> run_;  // uses the members above
};

std::unique_ptr<StartedChoice> TokenChooser::start(const StepLogits& logits,
                                                   std::span<const ChoiceRequest> requests,
                                                   ChosenTokens& chosen, const TensorView& next,
                                                   const std::shared_ptr<Stream>& stream,
                                                   const RunOptions& options) const {
  const Compiled& compiled = compiled_for(logits.view().type, next.type);
  if (compiled.device == nullptr || compiled.device != logits.device()) return nullptr;
  if (!writes_on_device(compiled.session->plan(), Result::likely_log_probabilities + 1)) {
    return nullptr;
  }
  auto started = std::make_unique<Started>(*this, prepare(logits, requests, chosen), chosen, next);
  if (!started->start(*compiled.session, stream, options)) return nullptr;
  return started;
}

void TokenChooser::check_chosen(Token token, const search::SamplingBlock& block) {
  check(token >= 0, ErrorKind::invalid_argument, "no token is left after {} tokens: {}",
        block.history.tokens.size(),
        block.mask.empty() ? "no logit is finite" : "rules exclude all tokens of the mask");
}

}  // namespace lathe::llm
