// SPDX-License-Identifier: MIT
#include "passes/decoder/share_kv_caches.h"

#include <algorithm>
#include <array>

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/kv_cache_uses.h"
#include "passes/decoder/sequence_form.h"
#include "passes/decoder/simplify_decoder.h"

namespace lathe {
namespace {

// Operand indices of group_query_attention.
enum Operand : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kCos = 7,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale
};

template <class T>
T attribute_of(const Instruction& instruction, std::string_view name) {
  return std::get<T>(*find_attribute(instruction.attributes(), name));
}

// True for keys and values [batch, heads, tokens, size] with static heads and size.
bool has_static_caches(const Instruction& attention) {
  for (const int present : {1, 2}) {
    const Type& type = attention.result(present)->type();
    if (!type.is_ranked() || type.rank() != 4 || !(*type.dims)[1].is_constant() ||
        !(*type.dims)[3].is_constant()) {
      return false;
    }
  }
  return true;
}

bool can_share(const Instruction& attention) {
  return has_static_caches(attention) && operand(attention, kKey) != nullptr &&
         operand(attention, kBias) == nullptr && attribute_of<bool>(attention, "causal") &&
         !attribute_of<bool>(attention, "sliding_window_cache") &&
         attribute_of<int64_t>(attention, "qk_output") == 0;
}

// True if both append the same keys and values.
bool append_alike(const Instruction& a, const Instruction& b) {
  constexpr std::array kAppended = {kKey, kValue, kPastKey, kPastValue, kKeyScale, kValueScale};
  constexpr std::array kRope = {kCos, kSin, kPositions};
  const auto equal = [&](size_t i) { return operand(a, i) == operand(b, i); };
  const bool rotates = attribute_of<bool>(a, "do_rotary");
  return std::ranges::all_of(kAppended, equal) && rotates == attribute_of<bool>(b, "do_rotary") &&
         attribute_of<int64_t>(a, "kv_num_heads") == attribute_of<int64_t>(b, "kv_num_heads") &&
         (!rotates ||
          (std::ranges::all_of(kRope, equal) && attribute_of<bool>(a, "rotary_interleaved") ==
                                                    attribute_of<bool>(b, "rotary_interleaved")));
}

bool appends_nothing(const Instruction& attention) {
  const Value* key = operand(attention, kKey);
  return key != nullptr && key->type().is_ranked() && key->type().rank() == 3 &&
         (*key->type().dims)[1] == Dim(0);
}

class Sharing {
 public:
  Sharing(Program& program, const DecoderInterface& names, StepTableNames& tables)
      : main_(program.main()), names_(names), form_(program, tables) {}

  std::vector<SharedKvCache> run() {
    for (const StatePair& pair : names_.states) {
      Value* past = find_parameter(main_, pair.past);
      const std::vector<Instruction*> all = readers(past);
      if (all.empty() || !can_share(*all.front()) || !is_state(operand(*all.front(), kPastValue))) {
        continue;
      }
      Instruction& first = *all.front();
      for (size_t i = 1; i < all.size(); ++i) {
        if (can_share(*all[i]) && append_alike(first, *all[i])) share(first, *all[i]);
      }
      for (bool more = true; more;) {
        more = false;
        for (Instruction* reader : readers(first.result(1))) {
          const bool alike =
              operand(*reader, kPastValue) == first.result(2) && appends_nothing(*reader);
          if (more || !alike || !can_share(*reader)) continue;
          share(first, *reader);
          more = true;  // readers of the erased present now read first's
        }
      }
    }
    return std::move(shared_);
  }

 private:
  bool is_state(const Value* value) const {
    return value != nullptr && value->definition() == nullptr &&
           std::ranges::find(names_.states, value->name(), &StatePair::past) != names_.states.end();
  }

  // group_query_attention with these keys as its past, in program order.
  std::vector<Instruction*> readers(const Value* keys) const {
    std::vector<Instruction*> found;
    for (const Use& use : keys->uses()) {
      const bool reads = use.user != nullptr && use.index == kPastKey &&
                         use.user->op() == ops::group_query_attention;
      if (reads) found.push_back(use.user);
    }
    std::vector<Instruction*> sorted;  // excludes bodies of branches and loops
    for (const auto& instruction : main_.instructions()) {
      if (std::ranges::find(found, instruction.get()) != found.end()) {
        sorted.push_back(instruction.get());
      }
    }
    return sorted;
  }

  void share(Instruction& first, Instruction& other) {
    Attributes attributes;
    for (const std::string_view name :
         {"num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
          "local_window_size", "smooth_softmax"}) {
      attributes.emplace_back(name, *find_attribute(other.attributes(), name));
    }
    const auto window = std::max<int64_t>(attribute_of<int64_t>(other, "local_window_size"), 0);
    std::vector<Value*> operands = {operand(other, kQuery)};
    for (const size_t i : {kPastKey, kPastValue}) {
      const SequenceState state = state_of(first, i);
      operands.push_back(form_.version(state));
      shared_.push_back({state.name, window});
    }
    operands.insert(operands.end(),
                    {form_.token_bounds(), form_.past_lengths(), form_.page_table()});
    for (const size_t i : {kCos, kSin, kPositions, kSink, kKeyScale, kValueScale}) {
      operands.push_back(operand(other, i));
    }
    while (operands.back() == nullptr) operands.pop_back();
    Builder builder(main_, &other);
    builder.set_origins(other.origins());
    main_.replace_uses(other.result(0), builder(ops::cached_attention, operands, attributes));
    for (int i = 1; i < 3; ++i) main_.replace_uses(other.result(i), first.result(i));
    main_.erase(&other);
  }

  // The KV cache that `first` appends to.
  SequenceState state_of(const Instruction& first, size_t past) const {
    const std::string& name = operand(first, past)->name();
    const StatePair& pair = *std::ranges::find(names_.states, name, &StatePair::past);
    const std::vector<Dim>& dims = *first.result(static_cast<int>(past) - 2)->type().dims;
    SequenceState state;
    state.name = state.past = pair.past;
    state.present = pair.present;
    state.element = operand(first, past)->type().element;
    state.grows = true;
    state.extents = {*dims[1].constant(), *dims[3].constant()};
    return state;
  }

  Module& main_;
  const DecoderInterface& names_;
  SequenceForm form_;
  std::vector<SharedKvCache> shared_;
};

}  // namespace

std::vector<SharedKvCache> share_kv_caches(Program& program, const DecoderInterface& names,
                                           StepTableNames& tables) {
  return Sharing(program, names, tables).run();
}

}  // namespace lathe
