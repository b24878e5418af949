// SPDX-License-Identifier: MIT
#include "passes/decoder/pack_states.h"

#include <algorithm>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/kv_cache_uses.h"
#include "passes/decoder/simplify_decoder.h"

namespace lathe {

// How an op with a past converts to a sequence operator.
struct StatePacking::Conversion {
  const Op& op;
  const Op& sequence_op;
  // Operand index of a past and result index of its present.
  struct Place {
    size_t past;
    size_t present;
  };
  std::vector<Place> places;
  std::vector<size_t> before;                // operands to keep before the states, in order
  std::vector<size_t> after;                 // and after the step tables
  std::vector<std::string_view> attributes;  // attributes to keep
  bool grows;
};

const std::vector<StatePacking::Conversion>& StatePacking::conversions() {
  static const std::vector<Conversion> list = {
      {ops::group_query_attention,
       ops::sequence_attention,
       {{3, 1}, {4, 2}},
       {0, 1, 2},
       {7, 8, 9, 11, 12, 13},
       {"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
        "smooth_softmax"},
       true},
      {ops::causal_conv_with_state,
       ops::sequence_conv,
       {{3, 1}},
       {0, 1, 2},
       {},
       {"activation", "channels_last", "dilation", "state_window"},
       false},
      {ops::linear_attention,
       ops::sequence_linear_attention,
       {{3, 1}},
       {0, 1, 2, 4, 5},
       {},
       {"q_num_heads", "kv_num_heads", "scale", "update_rule", "state_window"},
       false},
  };
  return list;
}

const StatePacking::Conversion* StatePacking::find_conversion(const Instruction& owner) {
  const auto& list = conversions();
  const auto at = std::ranges::find_if(
      list, [&](const Conversion& conversion) { return conversion.op == owner.op(); });
  return at == list.end() ? nullptr : &*at;
}

bool is_state_op(const Instruction& instruction, bool grows) {
  const StatePacking::Conversion* found = StatePacking::find_conversion(instruction);
  return found != nullptr && found->grows == grows;
}

Instruction* StatePacking::owner_of(const StatePair& pair) const {
  const int index = result_index(pair.present);
  return index < std::ssize(main_.results())
             ? main_.results()[static_cast<size_t>(index)]->definition()
             : nullptr;
}

std::string StatePacking::run(std::vector<SequenceState>& states) {
  // Before any conversion, which changes what was analysed.
  for (const StatePair& pair : names_.states) {
    const Instruction* owner = owner_of(pair);
    if (owner != nullptr && is_state_op(*owner, true)) biases_[owner] = bias_of(*owner);
  }
  for (const StatePair& pair : names_.states) {
    const Value* past = find_parameter(main_, pair.past);
    if (past == nullptr || done_.contains(pair.past)) continue;
    Instruction* owner = owner_of(pair);
    const Conversion* conversion = owner == nullptr ? nullptr : find_conversion(*owner);
    if (conversion == nullptr || past->uses().size() != 1) {
      return fmt::format("the state '{}' is not read and written by one sequence operator",
                         escape(pair.past));
    }
    if (std::string why = convert(*owner, *conversion, states); !why.empty()) return why;
  }
  return "";
}

// Mask, bias and window of group_query_attention; nullopt if they are not causal or ALiBi.
std::optional<AttentionBias> StatePacking::bias_of(const Instruction& owner) const {
  constexpr size_t kBias = 10;
  AttentionBias bias;
  bias.narrow_window(std::get<int64_t>(*find_attribute(owner.attributes(), "local_window_size")));
  const auto heads = std::get<int64_t>(*find_attribute(owner.attributes(), "num_heads"));
  const Value* added = operand(owner, kBias);
  if (added != nullptr && !attention_.add_bias(added, heads, bias)) return std::nullopt;
  // A sink is compared with absolute scores: a constant added to all scores of a query changes
  // the weights. ALiBi slopes alone are not enough.
  const bool sinks = operand(owner, kBias + 1) != nullptr ||
                     std::get<bool>(*find_attribute(owner.attributes(), "smooth_softmax"));
  if (sinks && !bias.slopes.empty()) return std::nullopt;
  return bias;
}

std::string StatePacking::convert(Instruction& owner, const Conversion& conversion,
                                  std::vector<SequenceState>& states) {
  std::optional<AttentionBias> bias;
  Attributes attributes;
  for (const std::string_view name : conversion.attributes) {
    attributes.emplace_back(name, *find_attribute(owner.attributes(), name));
  }
  if (conversion.grows) {
    bias = biases_[&owner];
    if (!bias) return describe(owner, "its bias is neither a causal mask nor ALiBi");
    if (!std::get<bool>(*find_attribute(owner.attributes(), "causal")) ||
        std::get<int64_t>(*find_attribute(owner.attributes(), "qk_output")) != 0) {
      return describe(owner, "it is not causal, or returns its scores");
    }
    const auto heads = std::get<int64_t>(*find_attribute(owner.attributes(), "num_heads"));
    attributes.emplace_back("local_window_size", bias->window > 0 ? bias->window : int64_t{-1});
    attributes.emplace_back("slopes", slopes_of(*bias, heads));
  }
  std::vector<SequenceState> taken;
  for (const Conversion::Place& place : conversion.places) {
    std::optional<SequenceState> state = take_state(owner, conversion, place.past, place.present);
    if (!state) {
      return describe(owner, "its past and present are not a pair of states of static shape");
    }
    if (conversion.grows) state->window = bias->window;
    taken.push_back(std::move(*state));
  }
  std::vector<Value*> operands;
  for (const size_t i : conversion.before) operands.push_back(operand(owner, i));
  for (const SequenceState& state : taken) operands.push_back(form_.version(state));
  operands.push_back(form_.token_bounds());
  if (conversion.grows) operands.push_back(form_.past_lengths());
  operands.push_back(conversion.grows ? form_.page_table() : form_.state_slots());
  for (const size_t i : conversion.after) operands.push_back(operand(owner, i));
  while (operands.back() == nullptr) operands.pop_back();
  Builder builder(main_, &owner);
  builder.set_origins(owner.origins());
  Instruction* converted = builder.add(conversion.sequence_op, operands, attributes);
  form_.set_update(*converted);
  main_.replace_uses(owner.result(0), converted->result(0));
  for (const SequenceState& state : taken) {
    done_.insert(state.name);
    main_.remove_result(result_index(state.present));
  }
  main_.erase(&owner);
  for (SequenceState& state : taken) {
    main_.remove_parameter(find_parameter(main_, state.name)->index());
    states.push_back(std::move(state));
  }
  return "";
}

int StatePacking::result_index(const std::string& name) const {
  return static_cast<int>(std::ranges::find(main_.result_names(), name) -
                          main_.result_names().begin());
}

std::optional<SequenceState> StatePacking::take_state(const Instruction& owner,
                                                      const Conversion& conversion, size_t past_at,
                                                      size_t present_at) const {
  const Value* past = operand(owner, past_at);
  if (past == nullptr) return {};
  const auto pair = std::ranges::find(names_.states, past->name(), &StatePair::past);
  if (past->definition() != nullptr || pair == names_.states.end()) return {};
  const Value* present = owner.result(static_cast<int>(present_at));
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

}  // namespace lathe
