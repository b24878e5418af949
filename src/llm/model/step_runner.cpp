// SPDX-License-Identifier: MIT
#include "llm/model/step_runner.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "llm/model/block_table_runner.h"
#include "llm/model/packed_runner.h"
#include "llm/model/prefill_decode_runner.h"
#include "llm/model/sequence_runner.h"
#include "llm/model/token_runner.h"
#include "passes/decoder/narrow_caches.h"
#include "passes/decoder/simplify_paged_caches.h"
#include "passes/eliminate_dead_code.h"
#include "passes/place.h"
#include "plan/device_copies.h"
#include "tensor/convert.h"

namespace lathe::llm {

std::shared_ptr<const Plan> compile_by(const RunnerOptions& runner,
                                       std::unique_ptr<Program> program,
                                       const CompileOptions& options) {
  return runner.compile ? runner.compile(std::move(program), options)
                        : compile(std::move(program), options);
}

StepRunner::StepRunner(std::unique_ptr<Program> program, const DecoderInterface& names,
                       std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options,
                       std::optional<LongRopeSwitch> length_switch)
    : names_(names), layout_(std::move(layout)), switch_(length_switch) {
  if (names_.positions.empty()) no_positions_ = "its tokens are consecutive";
  const Module& main = program->main();
  const auto& results = main.result_names();
  const auto logits = std::ranges::find(results, names_.logits);
  check(logits != results.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
        escape(names_.logits));
  logits_ = static_cast<size_t>(logits - results.begin());
  const Type& type = main.results()[logits_]->type();
  if (type.is_ranked() && type.rank() > 0) vocabulary_ = type.dims->back().constant().value_or(0);
  CompileOptions compile_options;
  compile_options.target = options.target;
  compile_options.compute = options.compute;
  compile_options.pool = options.pool;
  compile_options.passes = options.passes;
  compile_options.watch_kernels = options.watch_kernels;
  plan_ = compile_by(options, std::move(program), compile_options);
  result_devices_.resize(plan_->program->main().results().size());
  if (writes_on_device(*plan_, logits_)) result_devices_[logits_] = plan_->device;
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<Session>(plan_, session_options);
  chooser_ = std::make_shared<const TokenChooser>(options.target, options.pool);
}

StepRunner::StepRunner(const StepRunner& prompt, const StepRunner& token)
    : names_(token.names_),
      no_positions_(token.no_positions_.empty() ? prompt.no_positions_ : token.no_positions_),
      layout_(token.layout_),
      plan_(token.plan_),
      switch_(token.switch_),
      chooser_(token.chooser_),
      vocabulary_(token.vocabulary_) {
  check(prompt.vocabulary_ == vocabulary_, ErrorKind::invalid_model,
        "the prefill program has {} logits, the decode program {}", prompt.vocabulary_,
        vocabulary_);
  const auto limit = [](const StepRunner& runner) {
    return runner.switch_ ? runner.switch_->max_short : 0;
  };
  check(limit(prompt) == limit(token), ErrorKind::unsupported,
        "the prefill program switches its LongRoPE cos/sin caches past {} tokens, the decode "
        "program past {}",
        limit(prompt), limit(token));
  for (const ProgramOutput& output : token.outputs_) {
    const bool both = std::ranges::find(prompt.outputs_, output.name, &ProgramOutput::name) !=
                      prompt.outputs_.end();
    if (both) outputs_.push_back(output);
  }
}

std::unique_ptr<PendingStep> StepRunner::begin(std::span<const StepRequest> requests,
                                               const CancelToken* /*cancel*/,
                                               StepLogits& /*logits*/) const {
  fail(ErrorKind::unsupported, "a step of {} sequences cannot be split into run and commit",
       requests.size());
}

bool StepRunner::must_rerun(const StepRequest& request) const {
  const Sequence& sequence = *request.sequence;
  const int64_t past = sequence.length();
  const int64_t end = past + static_cast<int64_t>(request.tokens.size());
  if (!switch_ || past == 0 || is_long(end) == is_long(sequence.reach())) return false;
  check(std::ssize(sequence.tokens()) == past, ErrorKind::invalid_argument,
        "a sequence of {} tokens has the ids of {}: all must run again past {}", past,
        sequence.tokens().size(), switch_->max_short);
  return true;
}

std::unique_ptr<StepRunner::Rerun> StepRunner::make_rerun(const StepRequest& request) const {
  const Sequence& old = *request.sequence;
  const int64_t past = old.length();
  const auto count = std::ssize(request.tokens);
  auto rerun = std::make_unique<Rerun>(Rerun{Sequence(layout_)});
  rerun->tokens.assign(old.tokens().begin(), old.tokens().end());
  rerun->tokens.insert(rerun->tokens.end(), request.tokens.begin(), request.tokens.end());
  rerun->embedded = old.states().embedded;
  for (const EmbeddedTokens& own : request.embedded) {
    rerun->embedded.push_back({past + own.begin, own.embeddings});
  }
  // A restored sequence may lack the embeddings of its placeholders.
  int64_t unknown = std::ranges::count_if(rerun->tokens, [](Token token) { return token < 0; });
  for (const EmbeddedTokens& own : rerun->embedded) {
    const auto begin = rerun->tokens.begin() + own.begin;
    unknown -= std::count_if(begin, begin + own.embeddings.count(), [](Token t) { return t < 0; });
  }
  check(unknown == 0, ErrorKind::invalid_argument,
        "{} of {} tokens must run again, but their embeddings are unknown", unknown,
        rerun->tokens.size());
  Positions positions = old.states().positions;
  if (!request.positions.empty()) positions.add(past, count, request.positions);
  rerun->positions = positions.read(0, past + count);
  for (int64_t i = 0; i < request.logits.count(count); ++i) {
    rerun->logits.push_back(past + request.logits.at(i, count));
  }
  rerun->request = request;
  rerun->request.sequence = &rerun->sequence;
  rerun->request.tokens = rerun->tokens;
  rerun->request.embedded = rerun->embedded;
  rerun->request.positions = rerun->positions;
  rerun->request.logits = LogitPositions::list(rerun->logits);
  return rerun;
}

void StepRunner::remember(const StepRequest& request, Rerun* rerun) const {
  Sequence& sequence = *request.sequence;
  if (rerun != nullptr) {
    rerun->sequence.remember(rerun->tokens, rerun->embedded);
    rerun->sequence.place(std::ssize(rerun->tokens), rerun->positions);
    sequence = std::move(rerun->sequence);
    return;
  }
  sequence.place(std::ssize(request.tokens), request.positions);
  if (switch_) sequence.remember(request.tokens, request.embedded);
}

TokenLimits StepRunner::limits() const {
  TokenLimits limits;
  limits.no_positions = no_positions_;
  const auto& parameters = plan_->program->main().parameters();
  const auto find = [&](const std::string& name) -> const Value* {
    const auto at = std::ranges::find(parameters, name, [](const auto& p) { return p->name(); });
    return at == parameters.end() ? nullptr : at->get();
  };
  if (no_positions_.empty()) {
    // A program that ignores its position ids accepts any.
    const Value* positions = find(names_.positions);
    limits.position_axes = positions == nullptr || positions->type().rank() == 3 ? 3 : 1;
  }
  if (!names_.embeddings.empty()) {
    const Value* embeddings = find(names_.embeddings);
    limits.hidden =
        embeddings == nullptr ? -1 : embeddings->type().dims->back().constant().value_or(-1);
    limits.ids = embedder_ != nullptr;
  }
  return limits;
}

void StepRunner::TokenList::add(const StepRequest& request) {
  const auto begin = std::ssize(tokens);
  // Placeholders of embeddings become a valid id.
  for (const Token token : request.tokens) tokens.push_back(std::max<Token>(token, 0));
  for (const EmbeddedTokens& own : request.embedded) {
    embedded.push_back({begin + own.begin, own.embeddings});
  }
  ends.push_back(std::ssize(tokens));
}

void StepRunner::TokenList::clear() {
  tokens.clear();
  embedded.clear();
  ends.clear();
}

NamedTensors StepRunner::embed(const TokenList& list, const CancelToken* cancel) const {
  NamedTensors inputs;
  if (names_.embeddings.empty()) return inputs;
  const auto count = std::ssize(list.tokens);
  int64_t covered = 0;
  for (const EmbeddedTokens& own : list.embedded) covered += own.embeddings.count();
  const bool others = std::ranges::any_of(
      names_.token_inputs, [&](const std::string& name) { return name != names_.embeddings; });
  if (embedder_ != nullptr && (others || covered < count)) {
    // Ids under embeddings do not matter: use 0.
    std::vector<int64_t> tokens = list.tokens;
    for (const EmbeddedTokens& own : list.embedded) {
      std::fill_n(tokens.begin() + own.begin, own.embeddings.count(), 0);
    }
    RunOptions run;
    run.cancel = cancel;
    run.profiler = profiler_;
    inputs = embedder_->run(tokens, list.ends, run);
  }
  for (const auto& parameter : plan_->program->main().parameters()) {
    const Type& type = parameter->type();
    const auto made = inputs.find(parameter->name());
    if (made != inputs.end() && made->second.type() != type.element) {
      const Tensor from = made->second.dense();
      made->second = Tensor(type.element, from.dims());
      convert(type.element, made->second.data(), from.type(), from.data(), from.count());
    }
    if (parameter->name() != names_.embeddings || list.embedded.empty()) continue;
    const int64_t hidden = list.embedded.front().embeddings.values.dims()[1];
    const Tensor all(type.element, {1, count, hidden});
    const int64_t bytes = bytes_for(type.element, hidden);
    if (made != inputs.end()) {
      check(made->second.dims() == all.dims(), ErrorKind::invalid_argument,
            "embeddings are [{}, {}], but the embedding program returns {}", count, hidden,
            to_string(made->second.type(), made->second.dims()));
      std::memcpy(all.data(), made->second.dense().data(), static_cast<size_t>(all.byte_size()));
    }
    for (const EmbeddedTokens& own : list.embedded) {
      const Tensor given = own.embeddings.values.dense();
      check(given.dims()[1] == hidden, ErrorKind::invalid_argument,
            "embeddings of size {} and {} are in one step", hidden, given.dims()[1]);
      convert(type.element, all.as<std::byte>() + own.begin * bytes, given.type(), given.data(),
              given.count());
    }
    inputs[parameter->name()] = all;
  }
  return inputs;
}

void StepRunner::sample(std::span<const StepRequest> requests, const StepLogits& logits,
                        const CancelToken* cancel) const {
  thread_local std::vector<ChoiceRequest> choices;
  thread_local ChosenTokens chosen;
  choices.clear();
  int64_t end = 0;
  for (const StepRequest& request : requests) {
    end += request.logits.count(std::ssize(request.tokens));
    if (request.sampling != nullptr)
      choices.push_back({.block = *request.sampling, .row = end - 1});
  }
  if (choices.empty()) return;
  RunOptions run;
  run.cancel = cancel;
  run.profiler = profiler_;
  chooser_->choose(logits, choices, chosen, run);
  for (size_t i = 0; i < choices.size(); ++i) {
    TokenChooser::check_chosen(chosen.tokens[i], choices[i].block);
  }
  auto token = chosen.tokens.begin();
  for (const StepRequest& request : requests) {
    if (request.sampling != nullptr) *request.chosen = *token++;
  }
}

namespace {

// A program without block tables may run over shared pages.
PackedProgram pack(const NamedProgram& from, const PassOptions& options) {
  if (from.names.block_table.empty()) return pack_sequences(*from.program, from.names, options);
  const std::unique_ptr<Program> plain = from.program->clone();
  plain->stage = Stage::imported;
  const Pipeline pipeline{
      .stages = {{Stage::canonical, {simplify_paged_caches(from.names)}}},
      .cleanup = eliminate_dead_code,
  };
  try {
    if (run_passes(*plain, pipeline, options).front().changed) {
      return pack_sequences(*plain, from.names, options);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::interrupted) throw;
    // Some instruction does not support the new batch axis.
  }
  PackedProgram none;
  none.not_packed_reason = "operators beside attention read its paged KV caches";
  return none;
}

// Programs over the same states.
void narrow_caches_of(std::initializer_list<PackedProgram*> all, const RunnerOptions& options) {
  if (!options.caches || !std::ranges::all_of(all, [](const PackedProgram* packed) {
        return has_wide_caches(*packed->program);
      })) {
    return;
  }
  for (PackedProgram* packed : all) {
    narrow_caches(*packed->program, *options.caches);
    for (SequenceState& state : packed->states) {
      const State* narrowed = packed->program->find_state(state.name);
      if (narrowed != nullptr) state.element = narrowed->type.element;
    }
  }
}

// `layout`: of another program over the same states; null: its own.
std::unique_ptr<StepRunner> run_sequences(const NamedProgram& from, const PackedProgram& packed,
                                          std::shared_ptr<const CacheLayout> layout,
                                          const RunnerOptions& options) {
  try {
    const auto own = unpaged_layout(*from.program, from.names);
    if (layout != nullptr) check_alike(*own, *layout);
    return std::make_unique<SequenceRunner>(*from.program, from.names,
                                            layout != nullptr ? layout : own, packed, options);
  } catch (Error& error) {
    error.note(fmt::format("and tokens cannot be packed: {}", packed.not_packed_reason));
    throw;
  }
}

// Where pages of these programs lie.
const Device& device_of(const RunnerOptions& options,
                        std::initializer_list<const Program*> programs) {
  const Device* device = options.target == nullptr ? nullptr : options.target->device();
  const auto keeps = [&](const Program* program) {
    return keeps_pages(*program, [&](const Instruction& instruction) {
      return options.target->supports(instruction);
    });
  };
  return device != nullptr && std::ranges::all_of(programs, keeps) ? *device : host_device();
}

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& program,
                                             const RunnerOptions& options) {
  const bool blocks = !program.names.block_table.empty();
  if (!blocks && takes_single_tokens(*program.program, program.names)) {
    return std::make_unique<TokenRunner>(*program.program, program.names, options);
  }
  PackedProgram packed = pack(program, options.passes);
  if (packed.program != nullptr) {
    narrow_caches_of({&packed}, options);
    auto layout =
        std::make_shared<const CacheLayout>(std::move(packed.states), options.page_slots, false,
                                            device_of(options, {packed.program.get()}));
    return std::make_unique<PackedRunner>(std::move(packed), program.names, std::move(layout),
                                          options);
  }
  if (blocks) {
    return std::make_unique<BlockTableRunner>(*program.program, program.names, options);
  }
  return run_sequences(program, packed, nullptr, options);
}

std::unique_ptr<StepRunner> make_step_runner(const NamedProgram& prompt, const NamedProgram& token,
                                             const RunnerOptions& options) {
  PackedProgram packed_prompt = pack(prompt, options.passes);
  PackedProgram packed_token = pack(token, options.passes);
  if (packed_prompt.program != nullptr && packed_token.program != nullptr) {
    narrow_caches_of({&packed_prompt, &packed_token}, options);
    auto layout = std::make_shared<const CacheLayout>(
        join_states(packed_prompt.states, packed_token.states), options.page_slots, false,
        device_of(options, {packed_prompt.program.get(), packed_token.program.get()}));
    return std::make_unique<PrefillDecodeRunner>(
        std::make_unique<PackedRunner>(std::move(packed_prompt), prompt.names, layout, options),
        std::make_unique<PackedRunner>(std::move(packed_token), token.names, layout, options));
  }
  // Both programs must keep states in pages, or both in tensors.
  const std::string not_packed_reason = packed_prompt.program == nullptr
                                            ? packed_prompt.not_packed_reason
                                            : packed_token.not_packed_reason;
  check(token.names.block_table.empty(), ErrorKind::unsupported,
        "a prefill and a decode program share paged KV caches, but tokens cannot be packed: {}",
        not_packed_reason);
  packed_prompt.not_packed_reason = packed_token.not_packed_reason = not_packed_reason;
  auto run_token = run_sequences(token, packed_token, nullptr, options);
  return std::make_unique<PrefillDecodeRunner>(
      run_sequences(prompt, packed_prompt, run_token->layout(), options), std::move(run_token));
}

Tensor join_logits(std::span<const Tensor> parts) {
  int64_t count = 0;
  for (const Tensor& part : parts) count += part.dims()[0];
  Tensor all(ElementType::f32, {count, parts.front().dims()[1]});
  auto* to = all.as<float>();
  for (const Tensor& part : parts) {
    check(part.dims()[1] == all.dims()[1], ErrorKind::invalid_model,
          "sequences of one step have {} and {} logits", all.dims()[1], part.dims()[1]);
    std::memcpy(to, part.data(), static_cast<size_t>(part.byte_size()));
    to += part.count();
  }
  return all;
}

namespace {

// Bytes of one element of an axis, and the product of the dimensions before it.
struct AxisBytes {
  AxisBytes(const Tensor& tensor, int axis) {
    const auto at = tensor.dims().begin() + axis;
    for (auto d = tensor.dims().begin(); d != at; ++d) outer *= *d;
    inner = info(tensor.type()).bits;
    for (auto d = at + 1; d != tensor.dims().end(); ++d) inner *= *d;
    check(inner % 8 == 0 && tensor.type() != ElementType::string, ErrorKind::unsupported,
          "{} cannot be split along axis {}", to_string(tensor.type(), tensor.dims()), axis);
    inner /= 8;
  }
  int64_t outer = 1;
  int64_t inner = 0;
};

}  // namespace

Tensor slice_along(const Tensor& tensor, int axis, int64_t begin, int64_t count) {
  const Tensor dense = tensor.dense();
  const int64_t all = dense.dims()[static_cast<size_t>(axis)];
  check(begin >= 0 && count >= 0 && begin + count <= all, ErrorKind::invalid_model,
        "elements {} to {} of {}", begin, begin + count, to_string(dense.type(), dense.dims()));
  const AxisBytes bytes(dense, axis);
  Dims dims(dense.dims().begin(), dense.dims().end());
  dims[static_cast<size_t>(axis)] = count;
  Tensor part(dense.type(), std::move(dims));
  for (int64_t i = 0; i < bytes.outer && part.byte_size() > 0; ++i) {
    std::memcpy(part.as<std::byte>() + i * count * bytes.inner,
                dense.as<std::byte>() + (i * all + begin) * bytes.inner,
                static_cast<size_t>(count * bytes.inner));
  }
  return part;
}

Tensor join_along(std::span<const Tensor> parts, int axis) {
  const auto at = static_cast<size_t>(axis);
  Dims dims(parts.front().dims().begin(), parts.front().dims().end());
  dims[at] = 0;
  for (const Tensor& part : parts) {
    Dims own(part.dims().begin(), part.dims().end());
    check(own.size() == dims.size() && part.type() == parts.front().type(),
          ErrorKind::invalid_model, "{} cannot be joined to {}", to_string(part.type(), own),
          to_string(parts.front().type(), parts.front().dims()));
    dims[at] += std::exchange(own[at], dims[at]);
    own[at] = dims[at];
    check(own == dims, ErrorKind::invalid_model, "{} cannot be joined to {} along axis {}",
          to_string(part.type(), part.dims()),
          to_string(parts.front().type(), parts.front().dims()), axis);
  }
  Tensor all(parts.front().type(), dims);
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const Tensor dense = part.dense();
    const AxisBytes bytes(dense, axis);
    const int64_t count = dense.dims()[at];
    for (int64_t i = 0; i < bytes.outer && dense.byte_size() > 0; ++i) {
      std::memcpy(all.as<std::byte>() + (i * dims[at] + begin) * bytes.inner,
                  dense.as<std::byte>() + i * count * bytes.inner,
                  static_cast<size_t>(count * bytes.inner));
    }
    begin += count;
  }
  return all;
}

Tensor integer_tensor(ElementType type, Dims dims, std::span<const int64_t> values) {
  Tensor tensor(type, std::move(dims));
  convert(type, tensor.data(), ElementType::i64, values.data(),
          static_cast<int64_t>(values.size()));
  return tensor;
}

}  // namespace lathe::llm
