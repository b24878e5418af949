// SPDX-License-Identifier: MIT
#include "codegen/x86/body.h"

#include <algorithm>
#include <climits>

namespace lathe::codegen::x86 {
namespace {

bool contains(const std::vector<int>& all, int value) {
  return std::ranges::find(all, value) != all.end();
}

}  // namespace

Body::Body(const KernelDescription& kernel, const std::vector<Node>& nodes, const Phase& phase,
           Machine& machine, ConstantPool& pool, const BodyMemory& memory)
    : kernel_(kernel),
      phase_(phase),
      nodes_(nodes),
      machine_(machine),
      pool_(pool),
      memory_(memory),
      uses_(nodes_.size()) {
  // What the phase computes: nodes follow their inputs.
  std::vector<bool> reached(nodes_.size());
  for (const Store& store : phase.stores) {
    reached[static_cast<size_t>(store.value)] = true;
    if (store.high != kNone) reached[static_cast<size_t>(store.high)] = true;
  }
  for (const Reduction& next : phase.reductions) reached[static_cast<size_t>(next.value)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const NodeId input : nodes_[i].inputs) {
      if (input != kNone) reached[static_cast<size_t>(input)] = true;
    }
  }
  find_invariants(reached);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!reached[i]) continue;
    for (size_t input = 0; input < nodes_[i].count(); ++input) {
      std::vector<int>& uses = uses_[static_cast<size_t>(nodes_[i].inputs[input])];
      if (uses.empty() || uses.back() != static_cast<int>(i)) uses.push_back(static_cast<int>(i));
    }
  }
  const auto end = static_cast<int>(nodes_.size());
  for (const Store& store : phase.stores) {
    uses_[static_cast<size_t>(store.value)].push_back(end);
    if (store.high != kNone) uses_[static_cast<size_t>(store.high)].push_back(end);
  }
  for (const Reduction& next : phase.reductions) {
    uses_[static_cast<size_t>(next.value)].push_back(end);
  }
}

void Body::find_invariants(const std::vector<bool>& reached) {
  invariant_.assign(nodes_.size(), -1);
  int next = 0;
  for (size_t i = 0; i < nodes_.size() && next < memory_.invariants; ++i) {
    const Node& node = nodes_[i];
    bool invariant = reached[i] && node.kind == Node::Kind::operation;
    for (size_t input = 0; input < node.count(); ++input) {
      invariant = invariant && is_cell(node.inputs[input]);
    }
    if (invariant) invariant_[i] = next++;
  }
}

bool Body::loads(int operand) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const bool own = nodes_[i].is_element() && nodes_[i].bits == static_cast<uint64_t>(operand) &&
                     !uses_[i].empty();
    if (own) return true;
  }
  return false;
}

void Body::emit_invariants() {
  constexpr int kResult = 3;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (invariant_[i] < 0) continue;
    const Node& node = nodes_[i];
    std::array<Source, 3> in;
    for (size_t input = 0; input < node.count(); ++input) {
      const NodeId id = node.inputs[input];
      in[input].node = &nodes_[static_cast<size_t>(id)];
      in[input].reg = static_cast<int>(input);
      machine_.load_cell(in[input].node->type, in[input].reg, cell(id));
    }
    machine_.operate(node, kResult, std::span(in).first(node.count()));
    machine_.store_cell(node.type, kResult, memory_.invariant_cell(invariant_[i]));
  }
}

bool Body::is_mask(NodeId id) const {
  return machine_.masks() > 0 && nodes_[static_cast<size_t>(id)].type == ExprType::boolean;
}

bool Body::is_cell(NodeId id) const {
  const Node& node = nodes_[static_cast<size_t>(id)];
  return node.kind == Node::Kind::constant || node.kind == Node::Kind::scalar ||
         invariant_[static_cast<size_t>(id)] >= 0 ||
         (node.is_element() && kernel_.operands[node.bits].one_per_row);
}

Mem Body::cell(NodeId id) const {
  const Node& node = nodes_[static_cast<size_t>(id)];
  if (node.kind == Node::Kind::load) return memory_.operand_cell(static_cast<int>(node.bits));
  if (node.kind == Node::Kind::load_high) {
    return memory_.operand_cell(static_cast<int>(node.bits)).cloneAdjusted(4);
  }
  if (node.kind == Node::Kind::scalar) return memory_.scalar_cell(static_cast<int>(node.bits));
  const int invariant = invariant_[static_cast<size_t>(id)];
  if (invariant >= 0) return memory_.invariant_cell(invariant);
  const bool is_true = node.type == ExprType::boolean && node.bits != 0;
  return pool_.cell(is_true ? UINT32_MAX : static_cast<uint32_t>(node.bits));
}

int Body::next_use(NodeId id, int after) const {
  for (const int use : uses_[static_cast<size_t>(id)]) {
    if (use > after) return use;
  }
  return INT_MAX;
}

// Copies interleave, so that each value is live once per copy.
int Body::best_unroll() const {
  int vectors = 0, masks = 0, most_vectors = 1, most_masks = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (is_cell(id) || uses_[i].empty()) continue;
    (is_mask(id) ? masks : vectors) += 1;
    most_vectors = std::max(most_vectors, vectors);
    most_masks = std::max(most_masks, masks);
    for (size_t input = 0; input < nodes_[i].count(); ++input) {
      const NodeId in = nodes_[i].inputs[input];
      const auto seen = std::span(nodes_[i].inputs).first(input);
      const bool dies = next_use(in, static_cast<int>(i)) == INT_MAX && !is_cell(in) &&
                        std::ranges::find(seen, in) == seen.end();
      if (dies) (is_mask(in) ? masks : vectors) -= 1;
    }
  }
  const auto reductions = static_cast<int>(phase_.reductions.size());
  int copies = 4;
  const int available = machine_.vectors() * 4 / 5 - reductions * steps();
  const auto fits = [&] {
    return most_vectors * copies <= available &&
           (machine_.masks() == 0 || most_masks * copies <= machine_.masks());
  };
  while (copies > 1 && !fits()) copies /= 2;
  return copies;
}

bool Body::emit(int first, int copies, bool tail) {
  first_ = first;
  copies_ = copies;
  values_.assign(nodes_.size() * static_cast<size_t>(copies), {});
  vectors_ = {std::vector<int>(static_cast<size_t>(machine_.vectors()), kFree), false};
  std::fill(vectors_.owner.end() - held_, vectors_.owner.end(), kScratch);
  masks_ = {std::vector<int>(static_cast<size_t>(machine_.masks()), kFree), true};
  free_slots_.clear();
  for (int slot = memory_.slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (uses_[i].empty() || is_cell(id)) continue;
    for (int copy = 0; copy < copies; ++copy) {
      nodes_[i].is_element() ? emit_load(id, copy, tail) : emit_operation(id, copy);
    }
  }
  for (int copy = 0; copy < copies; ++copy) {
    emit_stores(copy, tail);
    emit_reductions(copy, tail);
  }
  return !overflow_;
}

Body::Value& Body::value(NodeId id, int copy) {
  return values_[static_cast<size_t>(id * copies_ + copy)];
}

// A register for a value of the node's class at position `at`; its owner is scratch.
int Body::take(NodeId id, int at, const std::vector<int>& pinned) {
  Bank& bank = is_mask(id) ? masks_ : vectors_;
  int best = -1, furthest = -1;
  for (size_t i = 0; i < bank.owner.size(); ++i) {
    const int owner = bank.owner[i];
    if (owner == kFree) {
      best = static_cast<int>(i);
      break;
    }
    if (owner == kScratch || contains(pinned, owner)) continue;
    // A copy that is emitted later still reads its inputs at this position.
    const int next = next_use(owner / copies_, at - 1);
    if (next > furthest) best = static_cast<int>(i), furthest = next;
  }
  auto& owner = bank.owner[static_cast<size_t>(best)];
  if (owner >= 0) {
    Value& spilled = values_[static_cast<size_t>(owner)];
    if (spilled.slot < 0) {
      overflow_ = overflow_ || free_slots_.empty();
      if (overflow_) free_slots_.push_back(0);
      spilled.slot = free_slots_.back();
      free_slots_.pop_back();
      const Node& node = nodes_[static_cast<size_t>(owner / copies_)];
      machine_.spill(node.type, spilled.reg, memory_.frame(spilled.slot));
    }
    spilled.reg = -1;
  }
  owner = kScratch;
  return best;
}

// The register of an input, loaded from the frame if needed.
int Body::ensure(NodeId id, int copy, int at, std::vector<int>& pinned) {
  Value& own = value(id, copy);
  pinned.push_back(id * copies_ + copy);
  if (own.reg >= 0) return own.reg;
  const int reg = take(id, at, pinned);
  machine_.reload(nodes_[static_cast<size_t>(id)].type, reg, memory_.frame(own.slot));
  (is_mask(id) ? masks_ : vectors_).owner[static_cast<size_t>(reg)] = id * copies_ + copy;
  own.reg = reg;
  return reg;
}

void Body::release(NodeId id, int copy) {
  Value& own = value(id, copy);
  if (own.reg >= 0) (is_mask(id) ? masks_ : vectors_).owner[static_cast<size_t>(own.reg)] = kFree;
  if (own.slot >= 0) free_slots_.push_back(own.slot);
  own = {};
}

void Body::release_after(NodeId id, int copy, int at) {
  if (!is_cell(id) && next_use(id, at) == INT_MAX) release(id, copy);
}

void Body::emit_load(NodeId id, int copy, bool tail) {
  const int reg = take(id, id, {});
  const Node& node = nodes_[static_cast<size_t>(id)];
  const Mem from = memory_.elements(static_cast<int>(node.bits), first_ + copy);
  node.kind == Node::Kind::load_high
      ? machine_.load_half(true, reg, from, tail)
      : machine_.load(kernel_.operands[node.bits].type, reg, from, tail);
  (is_mask(id) ? masks_ : vectors_).owner[static_cast<size_t>(reg)] = id * copies_ + copy;
  value(id, copy).reg = reg;
}

void Body::emit_operation(NodeId id, int copy) {
  const Node& node = nodes_[static_cast<size_t>(id)];
  const size_t count = node.count();
  const unsigned cells = machine_.cell_inputs(node);
  std::array<Source, 3> in;
  std::vector<int> pinned;
  std::vector<std::pair<Bank*, int>> scratch;
  bool folded = false;
  for (size_t i = 0; i < count; ++i) {
    if (!is_cell(node.inputs[i])) in[i].reg = ensure(node.inputs[i], copy, id, pinned);
  }
  // The last cell that the instruction reads from memory; others go to registers.
  for (size_t i = count; i-- > 0;) {
    const NodeId input = node.inputs[i];
    in[i].node = &nodes_[static_cast<size_t>(input)];
    if (!is_cell(input)) continue;
    in[i].cell = cell(input);
    if (!folded && (cells >> i & 1) != 0) {
      folded = true;
      continue;
    }
    in[i].reg = take(input, id, pinned);
    scratch.emplace_back(is_mask(input) ? &masks_ : &vectors_, in[i].reg);
    machine_.load_cell(in[i].node->type, in[i].reg, in[i].cell);
  }
  // The register of an input that dies here, or another.
  int to = -1;
  const unsigned shared = machine_.shared_inputs(node);
  for (size_t i = count; i-- > 0 && to < 0;) {
    const NodeId input = node.inputs[i];
    if ((shared >> i & 1) == 0 || is_cell(input) || is_mask(input) != is_mask(id)) continue;
    if (next_use(input, id) != INT_MAX) continue;
    bool read_apart = false;
    for (size_t j = 0; j < count; ++j) {
      read_apart = read_apart || (node.inputs[j] == input && (shared >> j & 1) == 0);
    }
    if (read_apart) continue;
    to = in[i].reg;
    value(input, copy).reg = -1;
  }
  // Else the register of a cell.
  for (size_t i = 0; i < count && to < 0; ++i) {
    const NodeId input = node.inputs[i];
    const bool own = is_cell(input) && in[i].reg >= 0 && (shared >> i & 1) != 0;
    if (own && is_mask(input) == is_mask(id)) to = in[i].reg;
  }
  if (to < 0) to = take(id, id, pinned);
  machine_.operate(node, to, std::span(in).first(count));
  for (size_t i = 0; i < count; ++i) release_after(node.inputs[i], copy, id);
  for (const auto& [bank, reg] : scratch) bank->owner[static_cast<size_t>(reg)] = kFree;
  (is_mask(id) ? masks_ : vectors_).owner[static_cast<size_t>(to)] = id * copies_ + copy;
  value(id, copy).reg = to;
}

void Body::emit_stores(int copy, bool tail) {
  for (const Store& store : phase_.stores) emit_store(store, copy, tail);
}

void Body::emit_store(const Store& store, int copy, bool tail) {
  const auto end = static_cast<int>(nodes_.size());
  std::vector<int> pinned;
  std::vector<std::pair<Bank*, int>> scratch;
  const auto in_register = [&](NodeId id) {
    if (!is_cell(id)) return ensure(id, copy, end, pinned);
    const int reg = take(id, end, pinned);
    machine_.load_cell(nodes_[static_cast<size_t>(id)].type, reg, cell(id));
    scratch.emplace_back(is_mask(id) ? &masks_ : &vectors_, reg);
    return reg;
  };
  const int value = in_register(store.value);
  const int high = store.high == kNone ? -1 : in_register(store.high);
  const Mem to = memory_.elements(store.operand, first_ + copy);
  high < 0
      ? machine_.store(kernel_.operands[static_cast<size_t>(store.operand)].type, value, to, tail)
      : machine_.store_halves(value, high, to, tail);
  for (const auto& [bank, reg] : scratch) bank->owner[static_cast<size_t>(reg)] = kFree;
}

void Body::hold_partial_results(bool hold) {
  held_ = hold ? static_cast<int>(phase_.reductions.size()) * steps() : 0;
}

int Body::partial_result(int reduction, int step) const {
  return machine_.vectors() - held_ + reduction * steps() + step;
}

void Body::emit_reductions(int copy, bool tail) {
  const auto end = static_cast<int>(nodes_.size());
  for (size_t i = 0; i < phase_.reductions.size(); ++i) {
    const Reduction& reduction = phase_.reductions[i];
    const Node operation{.op = reduction.op};
    std::vector<int> pinned;
    // A copy, as lanes beyond the tail are overwritten.
    const bool is_copy = tail || is_cell(reduction.value);
    int value = -1;
    if (!is_cell(reduction.value)) value = ensure(reduction.value, copy, end, pinned);
    if (is_copy) {
      const int own = take(reduction.value, end, pinned);
      value < 0 ? machine_.load_cell(ExprType::f32, own, cell(reduction.value))
                : machine_.operate({.op = ExprOp::convert}, own, std::array{value_in(value)});
      if (tail) machine_.fill_beyond_tail(own, neutral_bits(reduction.op));
      value = own;
    }
    if (held_ > 0) {
      const int sum = partial_result(static_cast<int>(i), (first_ + copy) % steps());
      machine_.operate(operation, sum, std::array{value_in(sum), value_in(value)});
    } else {
      const int sum = take(reduction.value, end, pinned);
      const Mem memory = memory_.partial_results(static_cast<int>(i));
      machine_.reload(ExprType::f32, sum, memory);
      machine_.operate(operation, sum, std::array{value_in(sum), value_in(value)});
      machine_.spill(ExprType::f32, sum, memory);
      vectors_.owner[static_cast<size_t>(sum)] = kFree;
    }
    if (is_copy) vectors_.owner[static_cast<size_t>(value)] = kFree;
  }
}

}  // namespace lathe::codegen::x86
