// SPDX-License-Identifier: MIT
// BeamSearch of com.microsoft over an encoder and a decoder: a loop whose body runs the decoder on
// the last tokens of all beams and chooses the next ones.
#include "import/onnx/operators/beam_search_step.h"
#include "import/onnx/operators/operators.h"
#include "import/onnx/random_numbers.h"

namespace lathe::onnx {
namespace {

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
  kLogitsProcessor
};

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

class BeamSearchImport {
 public:
  explicit BeamSearchImport(NodeImport& c)
      : c_(c), b_(c.b), encoder_(c.graph("encoder")), decoder_(c.graph("decoder")) {
    const int64_t type = c.integer("model_type", 0);
    c.supported(type == 1 || type == 2, "model_type {}, expected 1 or 2: an encoder and a decoder",
                type);
    has_mask_ = type == 1;
    c.supported(!c.is_used(2),
                "output {}, the scores of all tokens, is used, which is not supported", 2);
    c.supported(!c.has(kLogitsProcessor),
                "input {}, a logits processor, is used, which is not supported",
                int{kLogitsProcessor});
    settings_ = {c.integer("eos_token_id"), c.integer("early_stopping", 0) != 0,
                 c.has(kRepetitionPenalty), c.integer("no_repeat_ngram_size", 0)};
    c.check(settings_.ngram >= 0 && settings_.ngram <= 1024,
            "no_repeat_ngram_size is {}, expected 0 to 1024", settings_.ngram);
    pad_ = c.integer("pad_token_id");
    vocabulary_ = c.integer("vocab_size", -1);
    first_token_ = c.integer("decoder_start_token_id", -1);
    c.check(c.has(kBeams) && c.has(kMaxLength), "input {} or {} is absent", int{kMaxLength},
            int{kBeams});
    constants_ = {scalar(kMaxLength, ElementType::i64, 0),
                  scalar(kMinLength, ElementType::i64, 0),
                  one(scalar(kBeams, ElementType::i64, 0)),
                  scalar(kLengthPenalty, ElementType::f32, 1),
                  scalar(kRepetitionPenalty, ElementType::f32, 1),
                  allowed(kVocabularyMask)};
    captures_ = c.captures({&encoder_, &decoder_});
    c.supported(captures_.empty() || captures_.front().name != kRandomCounter,
                "random numbers in '{}'", escape(c.node.op_type));
  }

  void run() {
    const BeamSearchStep step(b_, settings_, constants_);
    encode(step);
    Module& body = b_.program().add_module("search");
    // The first step was the encoder's.
    Value* trips = b_("sub", {constants_.max_length, state_.length});
    LoopInputs inputs(body, trips, step.any_left(state_));
    const int carried = add_body(body, inputs);
    Instruction* loop =
        b_.add("loop", inputs.operands(), {{"carried", int64_t{carried}}}, {&body}, carried);
    std::vector<Value*> last;
    for (int i = 0; i < carried; ++i) last.push_back(loop->result(i));
    state_ = BeamState::from(last);
    step.finish(state_);
    Value* returned = one(scalar(kReturned, ElementType::i64, 1));
    const auto best = [&](Value* x) {
      return b_("slice", {x, b_.integers({0}), returned, b_.integers({1})});
    };
    c_.out(0, best(state_.found));
    c_.out(1, best(state_.grades));
  }

 private:
  Value* scalar(int i, ElementType type, double fallback) const {
    if (!c_.has(i)) return b_.scalar(type, fallback);
    return b_("reshape", {b_.cast(c_.in(i), type), b_.integers({})});
  }
  Value* one(Value* x) const { return b_("reshape", {x, b_.integers({1})}); }
  Value* allowed(int i) const {
    return c_.has(i) ? b_.cast(c_.in(i), ElementType::boolean) : nullptr;
  }
  // The logits [n, vocabulary] of the last tokens.
  Value* last_logits(Builder& b, Value* logits) const {
    Value* last = b("gather", {logits, b.scalar(ElementType::i64, -1)}, {{"axis", int64_t{1}}});
    if (vocabulary_ < 0) return last;
    return b("slice", {last, b.integers({0}), b.integers({vocabulary_}), b.integers({1})});
  }

  // The encoder takes the ids, a mask, and the decoder's first tokens. Its outputs are their
  // logits, hidden states, and the decoder's pasts.
  void encode(const BeamSearchStep& step) {
    Value* ids = c_.in(kIds);
    Value* tokens = first_tokens();
    std::vector<Value*> inputs{ids};
    Value* mask = has_mask_ ? attention_mask() : nullptr;
    if (has_mask_) inputs.push_back(mask);
    inputs.push_back(tokens);
    c_.supported(encoder_.inputs.size() == inputs.size() && encoder_.outputs.size() > 2,
                 "an encoder with {} inputs and {} outputs, expected {} and at least 3",
                 encoder_.inputs.size(), encoder_.outputs.size(), inputs.size());
    const std::vector<Value*> outputs = c_.inline_graph(b_.module(), encoder_, inputs, captures_);
    state_ = step.begin(tokens, pad_);
    given_ = {{"encoder_hidden_states", step.per_beam(state_, outputs[1])}};
    if (has_mask_) {
      given_.push_back({"encoder_attention_mask", step.per_beam(state_, mask)});
      given_.push_back({"encoder_input_ids", step.per_beam(state_, ids)});
    }
    for (size_t i = 2; i < outputs.size(); ++i) {
      pasts_.push_back(step.per_beam(state_, outputs[i]));
    }
    Value* prefix = allowed(kPrefixMask);
    step.advance(state_, step.per_beam(state_, last_logits(b_, outputs[0])),
                 prefix == nullptr ? nullptr : step.per_beam(state_, prefix));
  }

  Value* first_tokens() const {
    if (c_.has(kDecoderIds)) return b_.cast(c_.in(kDecoderIds), ElementType::i32);
    Value* batch = b_("shape", {c_.in(kIds)}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
    Value* shape = b_("concat", {batch, b_.integers({1})}, {{"axis", int64_t{0}}});
    return b_("expand", {b_.scalar(ElementType::i32, static_cast<double>(first_token_)), shape});
  }

  // By default, padding before the first token is masked.
  Value* attention_mask() const {
    if (c_.has(kAttentionMask)) return c_.in(kAttentionMask);
    Value* pad = b_.scalar(c_.element(kIds), static_cast<double>(pad_));
    Value* is_token = b_("not", {b_("equal", {c_.in(kIds), pad})});
    Value* tokens =
        b_("cumsum", {b_.cast(is_token, ElementType::i32), b_.scalar(ElementType::i64, 1)});
    return b_("min", {tokens, b_.scalar(ElementType::i32, 1)});
  }

  // Returns the number of carried values: the state, and the pasts that the decoder returns.
  int add_body(Module& body, LoopInputs& inputs) {
    const size_t returned = decoder_.outputs.empty() ? 0 : decoder_.outputs.size() - 1;
    c_.check(returned > 0 && returned <= pasts_.size() && !decoder_.inputs.empty(),
             "the decoder has {} inputs and {} outputs, the encoder {} outputs",
             decoder_.inputs.size(), decoder_.outputs.size(), encoder_.outputs.size());
    BeamState state = BeamState::from(inputs.pass(state_.list(), BeamState::kNames));
    std::vector<std::string> names;
    for (size_t i = 0; i < pasts_.size(); ++i) names.push_back(fmt::format("past_{}", i));
    const std::vector<Value*> pasts = inputs.pass(pasts_, names);
    constexpr std::array kSettings = {"max_length",     "min_length", "beams",
                                      "length_penalty", "repetition", "mask"};
    const BeamConstants constants = BeamConstants::from(inputs.pass(constants_.list(), kSettings));
    const NamedValues given = inputs.pass(given_);
    const NamedValues captures = inputs.pass(captures_);

    Builder b(body);
    b.set_origins(b_.origins());
    const BeamSearchStep step(b, settings_, constants);
    const auto& ids = decoder_.inputs[0].type.extents;
    const bool one_token = ids && ids->size() == 2 && (*ids)[1].value == 1;
    std::vector<Value*> operands{one_token ? step.last_tokens(state) : step.tokens(state)};
    auto past = pasts.begin();
    for (const ValueInfo& input : std::span(decoder_.inputs).subspan(1)) {
      const auto at = std::ranges::find(given, input.name, &Named::name);
      c_.check(at != given.end() || past != pasts.end(),
               "the decoder's input '{}' is not an output of the encoder", escape(input.name));
      operands.push_back(at != given.end() ? at->value : *past++);
    }
    const std::vector<Value*> outputs = c_.inline_graph(body, decoder_, operands, captures);
    Value* parents = step.advance(state, last_logits(b, outputs[0]));
    std::vector<Value*> results = state.list();
    results.insert(results.begin(), step.any_left(state));
    for (size_t i = 1; i < outputs.size(); ++i) {
      results.push_back(b("gather", {outputs[i], parents}));
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
  const Graph& encoder_;
  const Graph& decoder_;
  BeamSettings settings_{};
  BeamConstants constants_{};
  bool has_mask_ = false;
  int64_t pad_ = 0;
  int64_t vocabulary_ = -1;
  int64_t first_token_ = -1;
  NamedValues captures_;
  BeamState state_{};
  std::vector<Value*> pasts_;  // of the decoder itself, then of the encoder's tokens
  NamedValues given_;          // what the decoder takes by name
};

}  // namespace

void import_beam_search(NodeImport& c) { BeamSearchImport(c).run(); }

}  // namespace lathe::onnx
