// SPDX-License-Identifier: MIT
// BeamSearch and GreedySearch of com.microsoft: a loop whose body runs the decoder on the last
// tokens of all beams and chooses the next ones. An encoder, or the decoder itself, reads the
// prompts before.
#include "import/onnx/operators/beam_search_step.h"
#include "import/onnx/operators/operators.h"
#include "import/onnx/random_numbers.h"
#include "tensor/convert.h"

namespace lathe::onnx {
namespace {

// Operands of BeamSearch; GreedySearch has some of them.
enum Input {
  kIds,
  kMaxLength,
  kMinLength,
  kBeams,
  kReturned,
  kLengthPenalty,
  kRepetitionPenalty,
  kVocabularyMask,
  kPrefixMask,
  kAttentionMask,
  kDecoderIds,
  kLogitsProcessor,
  kInputs
};
constexpr std::array kGreedyInputs = {
    kIds, kMaxLength, kMinLength, kRepetitionPenalty, kVocabularyMask, kPrefixMask, kAttentionMask};

// Model types.
constexpr int64_t kDecoderOnly = 0, kTextEncoder = 1, kFeatureEncoder = 2;

using Named = NodeImport::Capture;
using NamedValues = std::vector<Named>;

// The parameters of the loop's body and the operands for them.
class LoopInputs {
 public:
  LoopInputs(Module& body, Value* trips, Value* condition)
      : body_(body), operands_{trips, condition} {
    body.add_parameter(Type::tensor(ElementType::i64, {}), "iteration");
    body.add_parameter(Type::tensor(ElementType::boolean, {}), "condition");
  }
  Value* pass(Value* value, std::string_view name) {
    operands_.push_back(value);
    return body_.add_parameter(value->type(), name);
  }
  template <class Names>
  std::vector<Value*> pass(const std::vector<Value*>& values, const Names& names) {
    std::vector<Value*> inner;
    for (size_t i = 0; i < values.size(); ++i) inner.push_back(pass(values[i], names[i]));
    return inner;
  }
  NamedValues pass(NamedValues values) {
    for (Named& x : values) {
      x.value = pass(x.value, x.name == kRandomCounter ? "counter" : x.name);
    }
    return values;
  }
  const std::vector<Value*>& operands() const { return operands_; }

 private:
  Module& body_;
  std::vector<Value*> operands_;
};

class SearchImport {
 public:
  SearchImport(NodeImport& c, bool greedy)
      : c_(c), b_(c.b), decoder_(c.graph("decoder")), greedy_(greedy) {
    read_operands();
    type_ = c.integer("model_type", kDecoderOnly);
    c.supported(
        type_ == kDecoderOnly || (!greedy && (type_ == kTextEncoder || type_ == kFeatureEncoder)),
        "model_type {}, expected 0 (a decoder), or for BeamSearch 1 or 2 (an encoder, too)", type_);
    if (type_ != kDecoderOnly) encoder_ = &c.graph("encoder");
    c.check(!decoder_.inputs.empty() && decoder_.outputs.size() >= 2,
            "the decoder has {} inputs and {} outputs, expected input_ids, logits and presents",
            decoder_.inputs.size(), decoder_.outputs.size());
    c.ignore({"encoder", "init_decoder"});  // a first decoder is a faster form of the decoder
    settings_ = {c.integer("eos_token_id"), c.integer("pad_token_id"),
                 !greedy && c.integer("early_stopping", 0) != 0,
                 operand(kRepetitionPenalty) != nullptr, c.integer("no_repeat_ngram_size", 0)};
    c.check(settings_.ngram >= 0 && settings_.ngram <= 1024,
            "no_repeat_ngram_size is {}, expected 0 to 1024", settings_.ngram);
    vocabulary_ = c.integer("vocab_size", -1);
    first_token_ = c.integer("decoder_start_token_id", -1);
    constants_ = {scalar(kMaxLength, ElementType::i64, 0),
                  scalar(kMinLength, ElementType::i64, 0),
                  one(scalar(kBeams, ElementType::i64, 1)),
                  scalar(kLengthPenalty, ElementType::f32, 1),
                  scalar(kRepetitionPenalty, ElementType::f32, 1),
                  allowed(kVocabularyMask)};
    captures_ = encoder_ == nullptr ? c.captures({&decoder_}) : c.captures({encoder_, &decoder_});
    c.supported(captures_.empty() || captures_.front().name != kRandomCounter,
                "random numbers in '{}'", escape(c.node.op_type));
  }

  void run() {
    const BeamSearchStep step(b_, settings_, constants_);
    Value* logits = encoder_ == nullptr ? read_prompt(step) : encode(step);
    Value* prefix = allowed(kPrefixMask);
    if (prefix != nullptr) prefix = step.per_beam(state_, prefix);
    advance(step, state_, step.per_beam(state_, last_logits(b_, logits)), prefix);
    Module& body = b_.program().add_module("search");
    Value* trips = b_("sub", {constants_.max_length, state_.length});
    LoopInputs inputs(body, trips, step.any_left(state_));
    const int carried = add_body(body, inputs);
    Instruction* loop =
        b_.add("loop", inputs.operands(), {{"carried", int64_t{carried}}}, {&body}, carried);
    std::vector<Value*> last;
    for (int i = 0; i < carried; ++i) last.push_back(loop->result(i));
    state_ = BeamState::from(last);
    if (greedy_) return c_.out(0, b_("squeeze", {state_.sequences, b_.integers({1})}));
    step.finish(state_);
    // More than there are beams is an index out of range.
    Value* indices =
        b_("range", {b_.scalar(ElementType::i64, 0), scalar(kReturned, ElementType::i64, 1),
                     b_.scalar(ElementType::i64, 1)});
    const auto best = [&](Value* x) { return b_("gather", {x, indices}, {{"axis", int64_t{1}}}); };
    c_.out(0, best(state_.found));
    c_.out(1, best(state_.grades));
  }

 private:
  void read_operands() {
    for (int i = 0; i < c_.count(); ++i) {
      const auto at = static_cast<size_t>(i);
      c_.check(at < (greedy_ ? kGreedyInputs.size() : size_t{kInputs}), "input {} is unknown", i);
      operands_[greedy_ ? kGreedyInputs[at] : at] = c_.in_or_null(i);
    }
    for (const Input i : {kIds, kMaxLength}) {
      c_.check(operand(i) != nullptr, "input {} is absent", int{i});
    }
    if (!greedy_) check_beams();
    c_.supported(!c_.is_used(2),
                 "output {}, the scores of all tokens, is used, which is not supported", 2);
    c_.supported(operand(kLogitsProcessor) == nullptr,
                 "input {}, a logits processor, is used, which is not supported",
                 int{kLogitsProcessor});
  }
  void check_beams() const {
    c_.check(operand(kBeams) != nullptr, "input {} is absent", int{kBeams});
    const std::optional<int64_t> beams = known(kBeams), returned = known(kReturned);
    c_.check(!beams || *beams > 0, "num_beams is {}, expected at least 1", beams.value_or(0));
    c_.check(!returned || *returned > 0, "num_return_sequences is {}, expected at least 1",
             returned.value_or(0));
    c_.check(!beams || !returned || *returned <= *beams,
             "num_return_sequences is {}, with num_beams {}", returned.value_or(0),
             beams.value_or(0));
  }
  // An integer of BeamSearch that is constant.
  std::optional<int64_t> known(Input i) const {
    const std::optional<Tensor> given = c_.literal(i);
    if (!given || given->count() != 1 || !is_integer(given->type()) || is_packed(given->type())) {
      return std::nullopt;
    }
    int64_t value = 0;
    convert(ElementType::i64, &value, given->type(), given->dense().data(), 1);
    return value;
  }
  Value* operand(Input i) const { return operands_[i]; }
  Value* scalar(Input i, ElementType type, double fallback) const {
    if (operand(i) == nullptr) return b_.scalar(type, fallback);
    return b_("reshape", {b_.cast(operand(i), type), b_.integers({})});
  }
  Value* one(Value* x) const { return b_("reshape", {x, b_.integers({1})}); }
  Value* allowed(Input i) const {
    return operand(i) == nullptr ? nullptr : b_.cast(operand(i), ElementType::boolean);
  }
  static Value* size(Builder& b, Value* x, int64_t axis) {
    return b("shape", {x}, {{"start", axis}, {"end", axis + 1}});
  }
  static Value* join(Builder& b, std::initializer_list<Value*> parts, int64_t axis = 0) {
    return b("concat", parts, {{"axis", axis}});
  }
  // The logits [n, vocabulary] of the last tokens.
  Value* last_logits(Builder& b, Value* logits) const {
    Value* last = b("gather", {logits, b.scalar(ElementType::i64, -1)}, {{"axis", int64_t{1}}});
    if (vocabulary_ < 0) return last;
    return b("slice", {last, b.integers({0}), b.integers({vocabulary_}), b.integers({1})});
  }
  // Returns the rows of the beams that continue; null: all.
  Value* advance(const BeamSearchStep& step, BeamState& state, Value* logits,
                 Value* prefix = nullptr) const {
    if (!greedy_) return step.advance(state, logits, prefix);
    step.advance_greedily(state, logits, prefix);
    return nullptr;
  }
  // Pasts of a decoder alone are keys and values in one [2, batch, heads, length, size].
  int64_t batch_axis() const { return type_ == kDecoderOnly ? 1 : 0; }

  // The encoder takes the ids, a mask, and the decoder's first tokens. Its outputs are their
  // logits, hidden states, and the decoder's pasts.
  Value* encode(const BeamSearchStep& step) {
    Value* tokens = first_tokens();
    std::vector<Value*> inputs{operand(kIds)};
    const bool has_mask = type_ == kTextEncoder;
    Value* mask = has_mask ? attention_mask() : nullptr;
    if (has_mask) inputs.push_back(mask);
    inputs.push_back(tokens);
    c_.supported(encoder_->inputs.size() == inputs.size() && encoder_->outputs.size() > 2,
                 "an encoder with {} inputs and {} outputs, expected {} and at least 3",
                 encoder_->inputs.size(), encoder_->outputs.size(), inputs.size());
    const std::vector<Value*> outputs = c_.inline_graph(b_.module(), *encoder_, inputs, captures_);
    state_ = step.begin(tokens);
    given_ = {{"encoder_hidden_states", step.per_beam(state_, outputs[1])}};
    if (has_mask) {
      given_.push_back({"encoder_attention_mask", step.per_beam(state_, mask)});
      given_.push_back({"encoder_input_ids", step.per_beam(state_, operand(kIds))});
    }
    for (size_t i = 2; i < outputs.size(); ++i) {
      pasts_.push_back(step.per_beam(state_, outputs[i]));
    }
    return outputs[0];
  }

  Value* first_tokens() const {
    if (Value* ids = operand(kDecoderIds)) return b_.cast(ids, ElementType::i32);
    Value* shape = join(b_, {size(b_, operand(kIds), 0), b_.integers({1})});
    return b_("expand", {b_.scalar(ElementType::i32, static_cast<double>(first_token_)), shape});
  }

  // Where the ids are not padding, as 0 or 1.
  Value* token_mask() const {
    Value* ids = operand(kIds);
    Value* pad = b_.scalar(ids->type().element, static_cast<double>(settings_.pad_token));
    return b_.cast(b_("not", {b_("equal", {ids, pad})}), ElementType::i32);
  }
  // By default, encoders see padding behind the first token.
  Value* attention_mask() const {
    if (Value* mask = operand(kAttentionMask)) return b_.cast(mask, ElementType::i32);
    if (type_ == kDecoderOnly) return token_mask();
    return b_("min", {counted(token_mask()), b_.scalar(ElementType::i32, 1)});
  }
  Value* counted(Value* x) const { return b_("cumsum", {x, b_.scalar(ElementType::i64, 1)}); }

  // Runs the decoder on the prompts, with empty pasts; returns the logits.
  Value* read_prompt(const BeamSearchStep& step) {
    Value* mask = attention_mask();
    Value* tokens = token_mask();  // positions do not depend on a given mask
    Value* positions = b_("sub", {counted(tokens), b_.scalar(ElementType::i32, 1)});
    positions = b_("mul", {positions, tokens});
    Value* ids = b_.cast(operand(kIds), ElementType::i32);
    const NamedValues given{{"attention_mask", mask}, {"position_ids", positions}};
    std::vector<Value*> inputs;
    for (const ValueInfo& input : decoder_.inputs) {
      const auto at = std::ranges::find(given, input.name, &Named::name);
      inputs.push_back(inputs.empty()      ? ids
                       : at != given.end() ? at->value
                                           : empty_past(input, ids));
    }
    c_.check(inputs.size() == given.size() + decoder_.outputs.size(),
             "the decoder has {} inputs and {} outputs, expected input_ids, position_ids, "
             "attention_mask and a past per present",
             inputs.size(), decoder_.outputs.size());
    const std::vector<Value*> outputs = c_.inline_graph(b_.module(), decoder_, inputs, captures_);
    state_ = step.begin(ids);
    given_ = {{"attention_mask", step.per_beam(state_, mask)},
              {"position_ids", step.per_beam(state_, tokens)}};
    for (size_t i = 1; i < outputs.size(); ++i) {
      pasts_.push_back(step.per_beam(state_, outputs[i], batch_axis()));
    }
    return outputs[0];
  }

  Value* empty_past(const ValueInfo& input, Value* ids) const {
    const auto& extents = input.type.extents;
    c_.supported(extents && extents->size() == 5 && (*extents)[2].value > 0 &&
                     (*extents)[4].value > 0 && input.type.element,
                 "the decoder's input '{}', expected a past [2, batch, heads, length, size] with "
                 "the numbers of heads and their size",
                 escape(input.name));
    Value* shape = join(b_, {b_.integers({2}), size(b_, ids, 0),
                             b_.integers({(*extents)[2].value, 0, (*extents)[4].value})});
    return b_("expand", {b_.scalar(*input.type.element, 0), shape});
  }

  // What the decoder takes by name in the loop.
  NamedValues named_inputs(Builder& b, const BeamState& state, NamedValues given) const {
    if (type_ != kDecoderOnly) return given;
    Value* prompt = given[0].value;
    Value* added = b("sub", {b("reshape", {state.length, b.integers({1})}), size(b, prompt, 1)});
    Value* ones =
        b("expand", {b.scalar(ElementType::i32, 1), join(b, {size(b, prompt, 0), added})});
    Value* tokens = join(b, {given[1].value, ones}, 1);
    tokens = b("reduce_sum", {tokens, b.integers({1})}, {{"keep_dims", true}});
    return {{"attention_mask", join(b, {prompt, ones}, 1)},
            {"position_ids", b("sub", {tokens, b.scalar(ElementType::i32, 1)})}};
  }

  // Returns the number of carried values: the state, and the pasts that the decoder returns.
  int add_body(Module& body, LoopInputs& inputs) {
    const size_t returned = decoder_.outputs.size() - 1;
    c_.check(returned <= pasts_.size(), "the decoder has {} inputs and {} outputs, for {} pasts",
             decoder_.inputs.size(), decoder_.outputs.size(), pasts_.size());
    BeamState state = BeamState::from(inputs.pass(state_.list(), BeamState::kNames));
    std::vector<std::string> names;
    for (size_t i = 0; i < pasts_.size(); ++i) names.push_back(fmt::format("past_{}", i));
    const std::vector<Value*> pasts = inputs.pass(pasts_, names);
    constexpr std::array kSettings = {"max_length",     "min_length", "beams",
                                      "length_penalty", "repetition", "mask"};
    const BeamConstants constants = BeamConstants::from(inputs.pass(constants_.list(), kSettings));
    const NamedValues passed = inputs.pass(given_);
    const NamedValues captures = inputs.pass(captures_);

    Builder b(body);
    b.set_origins(b_.origins());
    const BeamSearchStep step(b, settings_, constants);
    const NamedValues given = named_inputs(b, state, passed);
    const auto& ids = decoder_.inputs[0].type.extents;
    const bool all_tokens =
        type_ != kDecoderOnly && !(ids && ids->size() == 2 && (*ids)[1].value == 1);
    std::vector<Value*> operands{all_tokens ? step.tokens(state) : step.last_tokens(state)};
    auto past = pasts.begin();
    for (const ValueInfo& input : std::span(decoder_.inputs).subspan(1)) {
      const auto at = std::ranges::find(given, input.name, &Named::name);
      c_.check(at != given.end() || past != pasts.end(),
               "the decoder's input '{}' is not an output of the encoder", escape(input.name));
      operands.push_back(at != given.end() ? at->value : *past++);
    }
    const std::vector<Value*> outputs = c_.inline_graph(body, decoder_, operands, captures);
    Value* parents = advance(step, state, last_logits(b, outputs[0]));
    std::vector<Value*> results = state.list();
    results.insert(results.begin(), step.any_left(state));
    for (size_t i = 1; i < outputs.size(); ++i) {
      results.push_back(parents == nullptr
                            ? outputs[i]
                            : b("gather", {outputs[i], parents}, {{"axis", batch_axis()}}));
    }
    std::vector<std::string> result_names{"condition"};
    result_names.insert(result_names.end(), BeamState::kNames.begin(), BeamState::kNames.end());
    result_names.insert(result_names.end(), names.begin(),
                        names.begin() + static_cast<std::ptrdiff_t>(returned));
    const auto carried = static_cast<int>(results.size()) - 1;
    body.set_results(std::move(results), std::move(result_names));
    return carried;
  }

  NodeImport& c_;
  Builder& b_;
  const Graph* encoder_ = nullptr;
  const Graph& decoder_;
  bool greedy_;
  int64_t type_ = kDecoderOnly;
  std::array<Value*, kInputs> operands_{};
  BeamSettings settings_{};
  BeamConstants constants_{};
  int64_t vocabulary_ = -1;
  int64_t first_token_ = -1;
  NamedValues captures_;
  BeamState state_{};
  std::vector<Value*> pasts_;  // of the decoder itself, then of the encoder's tokens
  NamedValues given_;          // what the decoder takes by name
};

}  // namespace

void import_beam_search(NodeImport& c) { SearchImport(c, false).run(); }
void import_greedy_search(NodeImport& c) { SearchImport(c, true).run(); }

}  // namespace lathe::onnx
