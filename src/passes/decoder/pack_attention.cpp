// SPDX-License-Identifier: MIT
#include "passes/decoder/pack_attention.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/decoder/simplify_decoder.h"

namespace lathe {
namespace {

const StatePair* find_pair(const std::vector<StatePair>& pairs, const Value* past) {
  if (past == nullptr || past->definition() != nullptr) return nullptr;
  const auto at = std::ranges::find(pairs, past->name(), &StatePair::past);
  return at == pairs.end() ? nullptr : &*at;
}

// True for no slopes, one for all heads, or one per head.
bool has_slopes_for(const AttentionBias& bias, int64_t heads) {
  return bias.slopes.size() <= 1 || std::ssize(bias.slopes) == heads;
}

}  // namespace

Numbers slopes_of(const AttentionBias& bias, int64_t heads) {
  if (bias.slopes.size() != 1) return bias.slopes;
  return Numbers(static_cast<size_t>(heads), bias.slopes.front());
}

AttentionPacking::AttentionPacking(Program& program, const DecoderInterface& names,
                                   const TokenExtents& extents, StepTableNames& tables)
    : main_(program.main()),
      names_(names),
      extents_(extents),
      form_(program, tables),
      flow_(decoder_positions(program, names, extents)) {}

std::string AttentionPacking::recognise(const StatePair& pair, Instruction& owner,
                                        bool grows_itself) {
  if (made_.contains(find_parameter(main_, pair.past))) return "";
  NotAttention not_it;
  std::vector<CachedAttention> all = recognise_attention(owner, flow_, extents_, not_it);
  if (all.size() > 1) sort(all);
  bool good = !all.empty() || not_it.instruction == nullptr;
  for (size_t i = 0; i < all.size() && good; ++i) {
    if (i > 0) all[i].use = CacheUse::shared;
    good = (grows_itself || i > 0 || add_states(all[i])) && of_one_cache(all[i], all[0]);
    if (!good) not_it = {&owner, "its past and present are not a pair of states of static shape"};
  }
  if (!good) return describe(*not_it.instruction, not_it.why);
  for (const CachedAttention& found : all) {
    for (const Value* past : {found.past_key, found.past_value}) {
      made_.insert(past);
      if (found.use == CacheUse::shared) shared_.push_back({past->name(), found.window});
    }
    attentions_.push_back(found);
  }
  return "";
}

std::string AttentionPacking::recognise_across() {
  std::set<const Value*> attended;
  for (const StatePair& pair : names_.cross) {
    const Type& type = find_parameter(main_, pair.past)->type();
    const bool fits = type.is_ranked() && type.rank() == 4 && (*type.dims)[1].is_constant() &&
                      (*type.dims)[3].is_constant();
    if (fits) continue;
    return fmt::format("the input '{}' is {}, expected [batch, heads, positions, size]",
                       escape(pair.past), type.to_string());
  }
  cross_ = cross_states(main_.program(), names_);
  for (const StatePair& pair : names_.cross) {
    Value* keys = find_parameter(main_, pair.past);
    NotAttention not_it;
    for (const CachedAttention& found : recognise_cross_attention(keys, flow_, extents_, not_it)) {
      if (!fits_across(found)) {
        not_it = {found.result->definition(),
                  "its keys and values are not states with a static number of heads"};
      } else if (attended.insert(found.result).second) {
        attentions_.push_back(found);
      }
    }
    if (not_it.instruction != nullptr) return describe(*not_it.instruction, not_it.why);
  }
  return "";
}

bool AttentionPacking::add_bias(const Value* added, int64_t heads, AttentionBias& bias) const {
  return AttentionBiases(flow_, extents_).join(added, 1, bias) && has_slopes_for(bias, heads);
}

void AttentionPacking::convert() {
  for (const CachedAttention& found : attentions_) convert(found);
}

// Static dims are kept, others are open (0); the batch is one. States of equally many positions
// form a group.
std::vector<SequenceState> cross_states(const Program& program, const DecoderInterface& names) {
  std::vector<SequenceState> states;
  for (const StatePair& pair : names.cross) {
    const Type& type = find_parameter(program.main(), pair.past)->type();
    SequenceState state;
    state.name = state.past = pair.past;
    state.present = pair.present;
    state.element = type.element;
    state.cross = true;
    for (const Dim& dim : *type.dims) state.extents.push_back(dim.constant().value_or(0));
    state.extents.front() = 1;
    const auto positions = [&](const StatePair& other) {
      const Type& own = find_parameter(program.main(), other.past)->type();
      return own.rank() == type.rank() && own.rank() > 2 && (*own.dims)[2] == (*type.dims)[2];
    };
    state.cross_group =
        static_cast<int>(std::ranges::find_if(names.cross, positions) - names.cross.begin());
    states.push_back(std::move(state));
  }
  return states;
}

void widen_windows(std::vector<SequenceState>& states, const std::vector<SharedKvCache>& readers) {
  for (const SharedKvCache& reader : readers) {
    const auto state = std::ranges::find(states, reader.state, &SequenceState::name);
    if (state == states.end()) continue;
    const bool all = state->window == 0 || reader.window == 0;
    state->window = all ? 0 : std::max(state->window, reader.window);
  }
}

int AttentionPacking::result_of(const std::string& present) const {
  const auto& names = main_.result_names();
  return static_cast<int>(std::ranges::find(names, present) - names.begin());
}

// Sorts by program order.
void AttentionPacking::sort(std::vector<CachedAttention>& all) const {
  std::map<const Instruction*, size_t> places;
  for (const auto& instruction : main_.instructions()) {
    places.emplace(instruction.get(), places.size());
  }
  std::ranges::sort(all, {},
                    [&](const CachedAttention& a) { return places.at(a.result->definition()); });
}

bool AttentionPacking::of_one_cache(const CachedAttention& a, const CachedAttention& b) const {
  return a.past_key == b.past_key && a.past_value == b.past_value && a.kv_heads == b.kv_heads &&
         find_pair(names_.states, a.past_key) != nullptr &&
         find_pair(names_.states, a.past_value) != nullptr && a.heads > 0 &&
         has_slopes_for(a, a.heads) &&
         (a.use == CacheUse::appended || a.query->type().dims->back().is_constant());
}

bool AttentionPacking::fits_across(const CachedAttention& found) const {
  if (found.heads <= 0 || found.kv_heads <= 0) return false;
  const Type& query = found.query->type();
  const Dim size =
      query.rank() == 4 ? query.dims->back() : Dim::floor_div(query.dims->back(), found.heads);
  const auto fits = [&](const Value* state) {
    const Type& type = state->type();
    return find_pair(names_.cross, state) != nullptr && type.rank() == 4 &&
           type.element == query.element && (*type.dims)[1] == Dim(found.kv_heads) &&
           (*type.dims)[3] == size && size.is_constant();
  };
  return fits(found.past_key) && fits(found.past_value) &&
         found.result->type().element == query.element;
}

namespace {

// True for a cache of fixed capacity that is written as a ring buffer.
bool is_ring(const Value& past) {
  return std::ranges::any_of(past.uses(), [](const Use& use) {
    if (use.user == nullptr || use.index != 0 || use.user->op() != ops::tensor_scatter) {
      return false;
    }
    return std::get<std::string>(*find_attribute(use.user->attributes(), "mode")) == "circular";
  });
}

}  // namespace

// The state of a past: one that was added, an encoder's output, or the KV cache of another
// instruction that appends to it.
SequenceState AttentionPacking::state_of(const CachedAttention& found, const Value* past) const {
  for (const std::vector<SequenceState>* list : {&states_, &cross_}) {
    const auto known = std::ranges::find(*list, past->name(), &SequenceState::name);
    if (known != list->end()) return *known;
  }
  const std::vector<Dim>& query = *found.query->type().dims;
  const Dim size = query.size() == 4 ? query[3] : Dim::floor_div(query[2], found.heads);
  const StatePair& pair = *find_pair(names_.states, past);
  SequenceState state;
  state.name = state.past = pair.past;
  state.present = pair.present;
  state.element = past->type().element;
  state.grows = true;
  state.extents = {found.kv_heads, size.constant().value_or(0)};
  return state;
}

// Adds the states of keys and values.
bool AttentionPacking::add_states(const CachedAttention& found) {
  const std::vector<Dim>& key = *found.key->type().dims;
  const std::vector<Dim>& value = *found.value->type().dims;
  if (found.heads <= 0 || found.kv_heads <= 0) return false;
  const Dim size = key.size() == 3 ? Dim::floor_div(key[2], found.kv_heads) : key[3];
  const bool alike = key.size() == value.size() && key.back() == value.back() &&
                     found.result->type().element == found.query->type().element;
  if (!alike || !size.is_constant()) return false;
  for (const auto& [past, present] : {std::pair{found.past_key, found.present_key},
                                      std::pair{found.past_value, found.present_value}}) {
    const StatePair* pair = find_pair(names_.states, past);
    if (pair == nullptr ||
        main_.results()[static_cast<size_t>(result_of(pair->present))] != present) {
      return false;
    }
    SequenceState state;
    state.name = state.past = pair->past;
    state.present = pair->present;
    state.element = past->type().element;
    state.grows = true;
    state.extents = {found.kv_heads, *size.constant()};
    state.window = found.window;
    const std::vector<Dim>& dims = *past->type().dims;
    state.flat = dims.size() == 3;
    state.capacity = dims[dims.size() - 2].constant().value_or(0);
    state.ring = is_ring(*past);
    states_.push_back(std::move(state));
  }
  return true;
}

void AttentionPacking::convert(const CachedAttention& found) {
  Builder builder(main_, found.result->definition());
  builder.set_origins(found.result->definition()->origins());
  const auto flat = [&](Value* value, int64_t heads) {
    if (value->type().rank() == 3) return value;
    const Dim size = value->type().dims->back();
    return builder.reshape(builder.transpose(value, {0, 2, 1, 3}),
                           {1, extents_.tokens, size * Dim(heads)});
  };
  const double scale = found.scale;
  const bool appends = found.use == CacheUse::appended;
  std::vector<Value*> operands = {flat(found.query, found.heads)};
  if (appends) {
    operands.push_back(flat(found.key, found.kv_heads));
    operands.push_back(flat(found.value, found.kv_heads));
  }
  const SequenceState keys = state_of(found, found.past_key);
  operands.push_back(form_.version(keys));
  operands.push_back(form_.version(state_of(found, found.past_value)));
  operands.push_back(form_.token_bounds());
  const bool cross = found.use == CacheUse::cross;
  operands.push_back(cross ? form_.cross_lengths(keys) : form_.past_lengths());
  operands.push_back(cross ? form_.cross_table(keys) : form_.page_table());
  Attributes attributes = {{"num_heads", found.heads},
                           {"kv_num_heads", found.kv_heads},
                           {"scale", scale},
                           {"softcap", found.softcap},
                           {"local_window_size", found.window > 0 ? found.window : int64_t{-1}},
                           {"slopes", slopes_of(found, found.heads)}};
  if (!appends) attributes.emplace_back("causal", !cross);
  Instruction* attention = builder.add(appends ? ops::sequence_attention : ops::cached_attention,
                                       operands, std::move(attributes));
  if (appends) form_.set_update(*attention);
  Value* y = attention->result();
  const std::vector<Dim>& dims = *found.result->type().dims;
  if (dims.size() == 4 || !(dims.front() == Dim(1))) {
    const Dim size = found.query->type().dims->back();
    y = builder.transpose(builder.reshape(y, {1, extents_.tokens, found.heads, size}),
                          {0, 2, 1, 3});
    if (dims.size() == 3) y = builder.reshape(y, {found.heads, extents_.tokens, size});
  }
  main_.replace_uses(found.result, y);
  if (found.use != CacheUse::appended) return;
  for (const Value* past : {found.past_key, found.past_value}) {
    main_.remove_result(result_of(find_pair(names_.states, past)->present));
  }
}

}  // namespace lathe
