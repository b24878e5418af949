// SPDX-License-Identifier: MIT
#include "passes/decoder/pack_sequences.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/token_axis.h"
#include "passes/decoder/fold_conv_transposes.h"
#include "passes/decoder/gather_before_head.h"
#include "passes/decoder/pack_attention.h"
#include "passes/decoder/simplify_decoder.h"
#include "passes/eliminate_dead_code.h"
#include "passes/fold_constants.h"

namespace lathe {
namespace {

// How an op with a past converts to a sequence operator.
struct Conversion {
  const Op& op;
  const Op& sequence_op;
  // Operand index of a past and result index of its present.
  struct Place {
    size_t past;
    size_t present;
    std::string_view attribute;  // names the state
  };
  std::vector<Place> places;
  std::vector<size_t> operands;              // operands to keep, in order
  std::vector<std::string_view> attributes;  // attributes to keep
  bool grows;
};

const std::vector<Conversion>& conversions() {
  static const std::vector<Conversion> list = {
      {ops::group_query_attention,
       ops::sequence_attention,
       {{3, 1, "key_state"}, {4, 2, "value_state"}},
       {0, 1, 2, 7, 8, 9, 11, 12, 13},
       {"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
        "smooth_softmax"},
       true},
      {ops::causal_conv_with_state,
       ops::sequence_conv,
       {{3, 1, "state"}},
       {0, 1, 2},
       {"activation", "channels_last", "dilation", "state_window"},
       false},
      {ops::linear_attention,
       ops::sequence_linear_attention,
       {{3, 1, "state"}},
       {0, 1, 2, 4, 5},
       {"q_num_heads", "kv_num_heads", "scale", "update_rule", "state_window"},
       false},
  };
  return list;
}

class Packing {
 public:
  // With `free` positions the program must be correct for arbitrary ones: they are a token input.
  Packing(const Program& program, const DecoderInterface& names, bool free)
      : names_(names), program_(program.clone()), main_(program_->main()) {
    input_positions_ = names_.positions;
    if (!free || names_.positions.empty()) return;
    names_.token_inputs.push_back(names_.positions);
    names_.positions.clear();
  }

  PackedProgram run() {
    Value* tokens = parameter(names_.tokens);
    check(tokens->type().is_ranked() && tokens->type().rank() >= 2, ErrorKind::invalid_argument,
          "input '{}' is {}, expected [batch, tokens]", escape(names_.tokens),
          tokens->type().to_string());
    result_index(names_.logits);
    for (const StatePair& pair : names_.states) {
      parameter(pair.past);
      result_index(pair.present);
    }
    for (const StatePair& pair : names_.cross) parameter(pair.past);
    for (const auto& input : main_.parameters()) {
      if (input->type().is_ranked()) continue;
      return not_packed(fmt::format("the input '{}' is {}, of unknown rank", escape(input->name()),
                                    input->type().to_string()));
    }
    if (const Instruction* unranked = find_unranked()) {
      return not_packed(describe(*unranked, "its result has no static rank"));
    }
    eliminate_copies(*program_);
    combined_ = split_combined_states(*program_, names_);
    extents_ = set_token_extents(*program_, names_);
    if (!extents_) {
      return not_packed(
          fmt::format("the input '{}' is {}, expected dynamic batch and sequence axes",
                      escape(names_.tokens), tokens->type().to_string()));
    }
    merge_tables(tokens);
    const std::vector<SharedKvCache> shared = share_kv_caches(*program_, names_);
    AttentionPacking attention(*program_, names_, *extents_);
    if (std::string why = recognise(attention); !why.empty()) return not_packed(std::move(why));
    attention.convert();
    take_states(attention);
    fold_constants.run(*program_);       // folds readers of state shapes
    eliminate_dead_code.run(*program_);  // removes readers of returned caches
    for (const StatePair& pair : names_.states) {
      if (!convert(pair)) return std::move(packed_);
    }
    attention.widen_windows(packed_.states, shared);
    std::ranges::move(attention.cross_states(), std::back_inserter(packed_.states));
    eliminate_dead_code.run(*program_);
    absorb_positions(*program_, names_, *extents_);
    fold_conv_transposes(main_);
    fold_constants.run(*program_);
    eliminate_dead_code.run(*program_);
    if (!drop_parameters()) return std::move(packed_);
    if (input_positions_.empty() || input_positions_ == names_.positions) {
      packed_.positions = names_.positions;
    } else {
      packed_.positions = input_positions_;
      packed_.token_numbers = names_.positions;
    }
    main_.guards().clear();
    infer(main_);
    if (const Instruction* reader = find_reader_of_past()) {
      return not_packed(describe(*reader, "it depends on the number of cached tokens"));
    }
    std::map<const Value*, int> inputs = {{tokens, 1}};
    std::vector<std::string> others = names_.token_inputs;
    others.insert(others.end(), {names_.positions, packed_.table_rows});
    for (const std::string& name : others) {
      if (Value* input = find_parameter(main_, name)) inputs[input] = token_axis(input->type());
    }
    const TokenAxes flow = trace_tokens(main_, inputs);
    if (flow.blocking != nullptr) return not_packed(describe(*flow.blocking, flow.reason));
    Value* logits = main_.results()[static_cast<size_t>(result_index(names_.logits))];
    if (!flow.axes.contains(logits)) return not_packed("the logits have no token axis");
    for (size_t i = 0; i < main_.results().size(); ++i) {
      const Value* result = main_.results()[i];
      if (main_.result_names()[i] == names_.logits) continue;
      const auto axis = flow.axes.find(result);
      packed_.outputs.push_back(
          {main_.result_names()[i], axis == flow.axes.end() ? -1 : axis->second});
    }
    packed_.logit_positions = gather_before_head(*program_, logits, flow, extents_->tokens);
    eliminate_dead_code.run(*program_);
    packed_.program = std::move(program_);
    return std::move(packed_);
  }

 private:
  PackedProgram not_packed(std::string why) {
    packed_.not_packed_reason = std::move(why);
    return std::move(packed_);
  }

  Value* parameter(const std::string& name) const {
    Value* value = lathe::find_parameter(main_, name);
    check(value != nullptr, ErrorKind::invalid_argument, "the program has no input '{}'",
          escape(name));
    return value;
  }
  int result_index(const std::string& name) const {
    const auto& names = main_.result_names();
    const auto at = std::ranges::find(names, name);
    check(at != names.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
          escape(name));
    return static_cast<int>(at - names.begin());
  }

  // The length is the size of the mask, or past plus new tokens.
  void merge_tables(const Value* tokens) {
    LongRopeNames names;
    names.tokens = tokens;
    names.positions = find_parameter(main_, input_positions_);
    names.table_rows = "table_rows";
    const auto extent = [](const Value* value, size_t axis) {
      const auto& dims = value->type().dims;
      return dims && dims->size() > axis ? std::optional((*dims)[axis]) : std::nullopt;
    };
    if (const Value* mask = find_parameter(main_, names_.mask)) {
      if (const auto total = extent(mask, 1)) names.totals.push_back(*total);
    }
    for (const StatePair& pair : names_.states) {
      const auto past = extent(parameter(pair.past), 2);
      if (past) names.totals.push_back(*past + *extent(tokens, 1));
    }
    packed_.length_switch = merge_longrope_tables(*program_, names);
    if (packed_.length_switch) packed_.table_rows = main_.parameters().back()->name();
  }

  // Records attention that is not a single operator; changes nothing. Returns the blocking reason.
  std::string recognise(AttentionPacking& attention) {
    for (const StatePair& pair : names_.states) {
      Instruction* owner = owner_of(pair);
      const Conversion* conversion = owner == nullptr ? nullptr : find_conversion(*owner);
      if (owner == nullptr || (conversion != nullptr && !conversion->grows)) continue;
      std::string why = attention.recognise(pair, *owner, conversion != nullptr);
      if (!why.empty()) return why;
      if (conversion != nullptr) add_bias(attention, *owner);
    }
    return attention.recognise_across();
  }

  // Records the mask and bias of group_query_attention.
  void add_bias(const AttentionPacking& attention, const Instruction& owner) {
    constexpr size_t kBias = 10;
    AttentionBias bias;
    bias.narrow_window(std::get<int64_t>(*find_attribute(owner.attributes(), "local_window_size")));
    const auto heads = std::get<int64_t>(*find_attribute(owner.attributes(), "num_heads"));
    const Value* added = operand(owner, kBias);
    if (added != nullptr && !attention.add_bias(added, heads, bias)) return;
    // A sink is compared with absolute scores: a constant added to all scores of a query changes
    // the weights. ALiBi slopes alone are not enough.
    const bool sinks = operand(owner, kBias + 1) != nullptr ||
                       std::get<bool>(*find_attribute(owner.attributes(), "smooth_softmax"));
    if (bias.slopes.empty() || !sinks) biases_[&owner] = bias;
  }

  void take_states(const AttentionPacking& attention) {
    for (SequenceState state : attention.states()) {
      done_.insert(state.name);
      if (const auto both = combined_.find(state.name); both != combined_.end()) {
        state.part = state.name.ends_with("/1") ? 1 : 0;
        state.past = both->second.past;
        state.present = both->second.present;
      }
      packed_.states.push_back(std::move(state));
    }
  }

  const Instruction* find_unranked() const {
    for (const auto& instruction : main_.instructions()) {
      for (const Value& result : instruction->results()) {
        if (!result.type().is_ranked()) return instruction.get();
      }
    }
    return nullptr;
  }

  // The past's size has no meaning in a packed program.
  const Instruction* find_reader_of_past() const {
    const SymbolRef past = extents_->past.as_symbol();
    const auto mentions = [&](const std::vector<Dim>& dims) {
      std::vector<SymbolRef> symbols;
      for (const Dim& dim : dims) dim.collect_symbols(symbols);
      return std::ranges::any_of(symbols,
                                 [&](const SymbolRef& s) { return s->name == past->name; });
    };
    for (const auto& instruction : main_.instructions()) {
      for (const Value& result : instruction->results()) {
        if (past == nullptr) return nullptr;
        const bool ranked = result.type().is_tensor() && result.type().is_ranked();
        if ((ranked && mentions(*result.type().dims)) ||
            (result.elements() && mentions(*result.elements()))) {
          return instruction.get();
        }
      }
    }
    return nullptr;
  }

  Instruction* owner_of(const StatePair& pair) const {
    return main_.results()[static_cast<size_t>(result_index(pair.present))]->definition();
  }
  static const Conversion* find_conversion(const Instruction& owner) {
    const auto& list = conversions();
    const auto at = std::ranges::find_if(
        list, [&](const Conversion& conversion) { return conversion.op == owner.op(); });
    return at == list.end() ? nullptr : &*at;
  }

  // Replaces the operator of this pair, unless the operator's other state already did.
  bool convert(const StatePair& pair) {
    if (done_.contains(pair.past)) return true;
    const Value* past = parameter(pair.past);
    Instruction* owner = owner_of(pair);
    const Conversion* conversion = owner == nullptr ? nullptr : find_conversion(*owner);
    if (conversion == nullptr || past->uses().size() != 1) {
      packed_.not_packed_reason = fmt::format(
          "the state '{}' is not read and written by one sequence operator", escape(pair.past));
      return false;
    }
    return convert(*owner, *conversion);
  }

  bool convert(Instruction& owner, const Conversion& conversion) {
    const auto refuse = [&](std::string_view why) {
      packed_.not_packed_reason = describe(owner, why);
      return false;
    };
    const auto bias = biases_.find(&owner);
    if (conversion.grows && bias == biases_.end()) {
      return refuse("its bias is neither a causal mask nor ALiBi");
    }
    if (owner.op() == ops::group_query_attention &&
        (!std::get<bool>(*find_attribute(owner.attributes(), "causal")) ||
         std::get<int64_t>(*find_attribute(owner.attributes(), "qk_output")) != 0)) {
      return refuse("it is not causal, or returns its scores");
    }
    Attributes attributes;
    for (const std::string_view name : conversion.attributes) {
      attributes.emplace_back(name, *find_attribute(owner.attributes(), name));
    }
    if (conversion.grows) {
      const int64_t window = bias->second.window;
      const auto heads = std::get<int64_t>(*find_attribute(owner.attributes(), "num_heads"));
      attributes.emplace_back("local_window_size", window > 0 ? window : int64_t{-1});
      attributes.emplace_back("slopes", slopes_of(bias->second, heads));
    }
    for (const Conversion::Place& place : conversion.places) {
      std::optional<SequenceState> state = take_state(owner, conversion, place);
      if (!state) return refuse("its past and present are not a pair of states of static shape");
      if (conversion.grows) state->window = bias->second.window;
      attributes.emplace_back(place.attribute, state->name);
      packed_.states.push_back(*state);
      const bool codes = conversion.grows && state->element != owner.operands()[0]->type().element;
      if (codes && !find_attribute(attributes, "cache_type")) {
        attributes.emplace_back("cache_type", state->element);
      }
    }
    std::vector<Value*> operands;
    for (const size_t i : conversion.operands) {
      operands.push_back(i < owner.operands().size() ? owner.operands()[i] : nullptr);
    }
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    Builder builder(main_, &owner);
    builder.set_origins(owner.origins());
    Value* y = builder(conversion.sequence_op, operands, attributes);
    main_.replace_uses(owner.result(0), y);
    for (const SequenceState& state : packed_.states) {
      if (done_.insert(state.name).second) {
        main_.remove_result(result_index(state.present));
        removed_.push_back(state.name);
      }
    }
    main_.erase(&owner);
    for (const std::string& name : removed_) main_.remove_parameter(parameter(name)->index());
    removed_.clear();
    return true;
  }

  std::optional<SequenceState> take_state(const Instruction& owner, const Conversion& conversion,
                                          const Conversion::Place& place) const {
    if (place.past >= owner.operands().size() || owner.operands()[place.past] == nullptr) return {};
    const Value* past = owner.operands()[place.past];
    const auto pair = std::ranges::find(names_.states, past->name(), &StatePair::past);
    if (past->definition() != nullptr || pair == names_.states.end()) return {};
    const Value* present = owner.result(static_cast<int>(place.present));
    if (present->uses().size() != 1 ||
        main_.results()[static_cast<size_t>(result_index(pair->present))] != present) {
      return {};
    }
    SequenceState state;
    state.name = pair->past;
    state.element = past->type().element;
    state.grows = conversion.grows;
    state.past = pair->past;
    state.present = pair->present;
    // The operator's result has a more precise type than the caller's input.
    const std::vector<Dim>& dims = *present->type().dims;
    if (state.grows && dims.size() != 4) return {};
    // With state_window, states after several tokens are an axis before the batch.
    const Attribute* slots = find_attribute(owner.attributes(), "state_window");
    size_t axis = 1;
    if (slots != nullptr && std::get<int64_t>(*slots) > 0) {
      state.extents.push_back(std::get<int64_t>(*slots));
      axis = 2;
    }
    if (!state.grows) state.extents.push_back(1);
    for (; axis < dims.size(); ++axis) {
      if (state.grows && axis == 2) continue;
      if (!dims[axis].is_constant()) return {};
      state.extents.push_back(*dims[axis].constant());
    }
    if (state.grows) {
      const Attribute* sliding = find_attribute(owner.attributes(), "sliding_window_cache");
      state.sliding = sliding != nullptr && std::get<bool>(*sliding);
      // Only group_query_attention reads a cache of fixed capacity; others grow theirs.
      if (owner.op() == ops::group_query_attention && past->type().is_ranked()) {
        state.capacity = (*past->type().dims)[2].constant().value_or(0);
      }
    }
    return state;
  }

  // Removes masks and lengths without readers.
  bool drop_parameters() {
    std::vector<std::string> names;
    for (const auto& parameter : main_.parameters()) names.push_back(parameter->name());
    for (const std::string& name : names) {
      const auto& inputs = names_.token_inputs;
      if (name == names_.tokens || name == names_.positions || name == packed_.table_rows ||
          std::ranges::find(inputs, name) != inputs.end()) {
        continue;
      }
      Value* value = parameter(name);
      if (!value->uses().empty()) {
        const Instruction* reader = value->uses().front().user;
        packed_.not_packed_reason = fmt::format(
            "the input '{}' is read by {}", escape(name),
            reader == nullptr ? "the results" : describe(*reader, "it was not converted"));
        return false;
      }
      main_.remove_parameter(value->index());
    }
    for (const std::string& name : {names_.positions, input_positions_}) {
      Value* positions = find_parameter(main_, name);
      if (positions != nullptr && positions->uses().empty()) {
        main_.remove_parameter(positions->index());
      }
    }
    return true;
  }

  DecoderInterface names_;
  std::string input_positions_;  // the program's own input
  std::unique_ptr<Program> program_;
  Module& main_;
  PackedProgram packed_;
  std::optional<TokenExtents> extents_;
  std::map<std::string, StatePair> combined_;           // by the names of their halves
  std::map<const Instruction*, AttentionBias> biases_;  // of group_query_attention
  std::set<std::string> done_;                          // names of pasts
  std::vector<std::string> removed_;
};

}  // namespace

PackedProgram pack_sequences(const Program& program, const DecoderInterface& interface) {
  if (interface.positions.empty()) return Packing(program, interface, false).run();
  PackedProgram free = Packing(program, interface, true).run();
  if (free.program != nullptr) return free;
  // Masks may be computed from positions: then positions must count the tokens.
  PackedProgram counted = Packing(program, interface, false).run();
  counted.fixed_positions =
      fmt::format("positions must count the tokens ({})", free.not_packed_reason);
  return counted;
}

}  // namespace lathe
