// SPDX-License-Identifier: MIT
#include "passes/decoder/pack_sequences.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "ir/builder.h"
#include "passes/analysis/token_axis.h"
#include "passes/decoder/fold_conv_transposes.h"
#include "passes/decoder/gather_before_head.h"
#include "passes/decoder/pack_attention.h"
#include "passes/decoder/simplify_decoder.h"
#include "passes/eliminate_dead_code.h"
#include "passes/fold_constants.h"

namespace lathe {
namespace {

// How an op with a past becomes a sequence operator.
struct Conversion {
  std::string_view op;
  std::string_view sequence_op;
  // Operand of each past and result of its present.
  struct Place {
    size_t past;
    size_t present;
    std::string_view attribute;  // names the state
  };
  std::vector<Place> places;
  std::vector<size_t> operands;              // which ones stay, in order
  std::vector<std::string_view> attributes;  // which ones stay
  bool grows;
};

const std::vector<Conversion>& conversions() {
  static const std::vector<Conversion> list = {
      {"group_query_attention",
       "sequence_attention",
       {{3, 1, "key_state"}, {4, 2, "value_state"}},
       {0, 1, 2, 7, 8, 9, 11, 12, 13},
       {"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
        "smooth_softmax"},
       true},
      {"causal_conv_with_state",
       "sequence_conv",
       {{3, 1, "state"}},
       {0, 1, 2},
       {"activation", "channels_last", "dilation", "state_window"},
       false},
      {"linear_attention",
       "sequence_linear_attention",
       {{3, 1, "state"}},
       {0, 1, 2, 4, 5},
       {"q_num_heads", "kv_num_heads", "scale", "update_rule", "state_window"},
       false},
  };
  return list;
}

class Packing {
 public:
  // With `free` positions nothing is known of them: they are rows like tokens.
  Packing(const Program& program, const DecoderInterface& names, bool free)
      : names_(names), program_(program.clone()), main_(program_->main()) {
    given_positions_ = names_.positions;
    if (!free || names_.positions.empty()) return;
    names_.token_inputs.push_back(names_.positions);
    names_.positions.clear();
  }

  PackedProgram run() {
    Value* tokens = parameter(names_.tokens);
    check(tokens->type().is_ranked() && tokens->type().rank() >= 2, ErrorKind::invalid_argument,
          "input '{}' is {}, expected [batch, rows]", escape(names_.tokens),
          tokens->type().to_string());
    result_index(names_.logits);
    for (const StatePair& pair : names_.states) {
      parameter(pair.past);
      result_index(pair.present);
    }
    for (const StatePair& pair : names_.cross) parameter(pair.past);
    for (const auto& input : main_.parameters()) {
      if (input->type().is_ranked()) continue;
      return offend(fmt::format("the input '{}' is {}, of unknown rank", escape(input->name()),
                                input->type().to_string()));
    }
    if (const Instruction* unranked = without_rank()) {
      return offend(describe(*unranked, "the rank of its result is not known"));
    }
    eliminate_copies(*program_);
    combined_ = split_combined_states(*program_, names_);
    extents_ = set_token_extents(*program_, names_);
    if (!extents_) {
      return offend(fmt::format("the input '{}' is {}, expected unknown batch and rows",
                                escape(names_.tokens), tokens->type().to_string()));
    }
    join_tables(tokens);
    const std::vector<SharedKvCache> shared = share_kv_caches(*program_, names_);
    AttentionPacking attention(*program_, names_, *extents_);
    if (std::string why = recognise(attention); !why.empty()) return offend(std::move(why));
    attention.convert();
    take_states(attention);
    fold_constants.run(*program_);       // what reads extents of states alone
    eliminate_dead_code.run(*program_);  // what reads caches that operators give
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
    if (given_positions_.empty() || given_positions_ == names_.positions) {
      packed_.positions = names_.positions;
    } else {
      packed_.positions = given_positions_;
      packed_.token_numbers = names_.positions;
    }
    main_.guards().clear();
    infer(main_);
    if (const Instruction* reader = reader_of_past()) {
      return offend(describe(*reader, "it depends on how many rows came before"));
    }
    std::map<const Value*, int> inputs = {{tokens, 1}};
    std::vector<std::string> others = names_.token_inputs;
    others.insert(others.end(), {names_.positions, packed_.table_rows});
    for (const std::string& name : others) {
      if (Value* rows = find_parameter(main_, name)) inputs[rows] = token_axis(rows->type());
    }
    const TokenAxes flow = trace_tokens(main_, inputs);
    if (flow.not_packed_reason != nullptr)
      return offend(describe(*flow.not_packed_reason, flow.reason));
    Value* logits = main_.results()[static_cast<size_t>(result_index(names_.logits))];
    if (!flow.rows.contains(logits)) return offend("the logits have no rows");
    for (size_t i = 0; i < main_.results().size(); ++i) {
      const Value* result = main_.results()[i];
      if (main_.result_names()[i] == names_.logits) continue;
      const auto rows = flow.rows.find(result);
      packed_.outputs.push_back(
          {main_.result_names()[i], rows == flow.rows.end() ? -1 : rows->second});
    }
    packed_.wanted_rows = gather_before_head(*program_, logits, flow, extents_->rows);
    eliminate_dead_code.run(*program_);
    packed_.program = std::move(program_);
    return std::move(packed_);
  }

 private:
  PackedProgram offend(std::string why) {
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

  // Lengths are extents of the mask, or those of a past and the new rows together.
  void join_tables(const Value* tokens) {
    LongRopeNames names;
    names.tokens = tokens;
    names.positions = find_parameter(main_, given_positions_);
    names.rows = "table_rows";
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

  // Attention that no single operator is, before anything is changed; gives what is in the way.
  std::string recognise(AttentionPacking& attention) {
    for (const StatePair& pair : names_.states) {
      Instruction* owner = owner_of(pair);
      const Conversion* conversion = owner == nullptr ? nullptr : find_conversion(*owner);
      if (owner == nullptr || (conversion != nullptr && !conversion->grows)) continue;
      std::string why = attention.recognise(pair, *owner, conversion != nullptr);
      if (!why.empty()) return why;
      if (conversion != nullptr) join_bias(attention, *owner);
    }
    return attention.recognise_across();
  }

  // What grouped attention adds to its scores.
  void join_bias(const AttentionPacking& attention, const Instruction& owner) {
    constexpr size_t kBias = 10;
    AttentionBias bias;
    bias.narrow(std::get<int64_t>(*find_attribute(owner.attributes(), "local_window_size")));
    const auto heads = std::get<int64_t>(*find_attribute(owner.attributes(), "num_heads"));
    const Value* added = operand(owner, kBias);
    if (added != nullptr && !attention.join_bias(added, heads, bias)) return;
    // A sink is weighed against the scores themselves: what is added to all of a row counts then.
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

  const Instruction* without_rank() const {
    for (const auto& instruction : main_.instructions()) {
      for (const Value& result : instruction->results()) {
        if (!result.type().is_ranked()) return instruction.get();
      }
    }
    return nullptr;
  }

  // The past's extent means nothing any more.
  const Instruction* reader_of_past() const {
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
    const auto at = std::ranges::find(list, owner.op().name, &Conversion::op);
    return at == list.end() ? nullptr : &*at;
  }

  // Replaces the operator of this pair, unless its other state has done so already.
  bool convert(const StatePair& pair) {
    if (done_.contains(pair.past)) return true;
    const Value* past = parameter(pair.past);
    Instruction* owner = owner_of(pair);
    const Conversion* conversion = owner == nullptr ? nullptr : find_conversion(*owner);
    if (conversion == nullptr || past->uses().size() != 1) {
      packed_.not_packed_reason =
          fmt::format("the state '{}' is not that of one sequence operator", escape(pair.past));
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
      return refuse("it has a bias that is not one by position");
    }
    if (owner.op().name == "group_query_attention" &&
        (!std::get<bool>(*find_attribute(owner.attributes(), "causal")) ||
         std::get<int64_t>(*find_attribute(owner.attributes(), "qk_output")) != 0)) {
      return refuse("it is not causal, or gives its scores");
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
      if (!state) return refuse("its past and present are not a pair of states of known extents");
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
    // What the operator makes is known better than what the caller gives.
    const std::vector<Dim>& dims = *present->type().dims;
    if (state.grows && dims.size() != 4) return {};
    // States after several tokens come before the batch.
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
      // What other operators are given has as many rows as there are.
      if (owner.op().name == "group_query_attention" && past->type().is_ranked()) {
        state.capacity = (*past->type().dims)[2].constant().value_or(0);
      }
    }
    return state;
  }

  // Masks and lengths that nothing reads any more.
  bool drop_parameters() {
    std::vector<std::string> names;
    for (const auto& parameter : main_.parameters()) names.push_back(parameter->name());
    for (const std::string& name : names) {
      const auto& rows = names_.token_inputs;
      if (name == names_.tokens || name == names_.positions || name == packed_.table_rows ||
          std::ranges::find(rows, name) != rows.end()) {
        continue;
      }
      Value* value = parameter(name);
      if (!value->uses().empty()) {
        const Instruction* reader = value->uses().front().user;
        packed_.not_packed_reason = fmt::format(
            "the input '{}' is read by {}", escape(name),
            reader == nullptr ? "the results" : describe(*reader, "it is not absorbed"));
        return false;
      }
      main_.remove_parameter(value->index());
    }
    for (const std::string& name : {names_.positions, given_positions_}) {
      Value* positions = find_parameter(main_, name);
      if (positions != nullptr && positions->uses().empty()) {
        main_.remove_parameter(positions->index());
      }
    }
    return true;
  }

  DecoderInterface names_;
  std::string given_positions_;  // the program's own input
  std::unique_ptr<Program> program_;
  Module& main_;
  PackedProgram packed_;
  std::optional<TokenExtents> extents_;
  std::map<std::string, StatePair> combined_;           // by the names of their halves
  std::map<const Instruction*, AttentionBias> biases_;  // of grouped attention
  std::set<std::string> done_;                          // pasts
  std::vector<std::string> removed_;
};

}  // namespace

PackedProgram pack_sequences(const Program& program, const DecoderInterface& interface) {
  if (interface.positions.empty()) return Packing(program, interface, false).run();
  PackedProgram free = Packing(program, interface, true).run();
  if (free.program != nullptr) return free;
  // Masks may be made of positions: then they must be those of the rows.
  PackedProgram counted = Packing(program, interface, false).run();
  counted.fixed_positions =
      fmt::format("it takes them for a count of its rows ({})", free.not_packed_reason);
  return counted;
}

}  // namespace lathe
