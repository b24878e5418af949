// SPDX-License-Identifier: MIT
// Literals of plans: copied to devices, computed where deferred, released once kernels have packed
// them.
#include "base/interrupt.h"
#include "ir/literal.h"
#include "ir/ops.h"
#include "passes/place.h"
#include "plan/packing_source.h"
#include "plan/planner.h"
#include "plan/planning_threads.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

// A literal that no kernel reads: all strides are 0, over one zero element.
Tensor dropped_literal(ElementType type, const Dims& dims) {
  static std::array<uint64_t, 2> zero{};
  return {type, dims, Dims(dims.size(), 0), zero.data(), nullptr};
}

bool is_read_by_deferred_only(const Value& value) {
  return std::ranges::all_of(
      value.uses(), [](const Use& use) { return use.user != nullptr && use.user->deferred(); });
}

// Keeps type and shape.
void drop_literal(Tensor& literal) {
  if (info(literal.type()).bits >= 8) literal = dropped_literal(literal.type(), literal.dims());
}

}  // namespace

void ModulePlanner::add_literal(const Value& value, Tensor tensor) {
  const SlotId slot = add_slot(value, SlotKind::literal);
  out_.slots[static_cast<size_t>(slot)].index = static_cast<int>(plan_.literals.size());
  if (value.type().element == ElementType::string) {
    out_.slots[static_cast<size_t>(slot)].kind = SlotKind::literal;
  }
  // Deferred instructions read elements at any address; kernels do not.
  const bool as_is = tensor.is_dense() && is_read_by_deferred_only(value);
  plan_.literals.push_back(as_is ? std::move(tensor) : tensor.aligned().dense());
}

void ModulePlanner::plan_literal(const Instruction& instruction) {
  if (slots_.contains(instruction.result())) return;
  const Literal& literal = *instruction.literal();
  add_literal(*instruction.result(), literal.tensor);
}

// A transposed matrix that only the device reads: there it is a view.
bool ModulePlanner::is_transposed_on_device(const Instruction& instruction) const {
  if (plan_.device == nullptr || !(instruction.op() == ops::transpose)) return false;
  const Value& result = *instruction.result();
  const auto& order = std::get<Integers>(*find_attribute(instruction.attributes(), "permutation"));
  return order == Integers{1, 0} && !result.uses().empty() &&
         std::ranges::all_of(result.uses(), [](const Use& use) {
           return use.user != nullptr && use.user->deferred() && lies_on_device(*use.user);
         });
}

// Literals along the first axis, one after the other, that only the device reads: each is copied to
// its part.
bool ModulePlanner::is_joined_on_device(const Instruction& instruction) const {
  if (plan_.device == nullptr || !(instruction.op() == ops::concat)) return false;
  const Value& result = *instruction.result();
  const auto is_plain = [](const Value* part) {
    return part->definition() != nullptr && part->definition()->literal() != nullptr &&
           info(part->type().element).bits >= 8;
  };
  return std::get<int64_t>(*find_attribute(instruction.attributes(), "axis")) == 0 &&
         std::ranges::all_of(instruction.operands(), is_plain) && !result.uses().empty() &&
         std::ranges::all_of(result.uses(), [&](const Use& use) {
           return use.user != nullptr && use.user->deferred() &&
                  (lies_on_device(*use.user) || is_transposed_on_device(*use.user));
         });
}

// Allocates the memory of all copies at once and returns it: what cannot fit is refused before the
// first is made.
void ModulePlanner::check_literals_fit() const {
  std::map<const Value*, int64_t> sizes;  // by source
  for (const auto& instruction : module_.instructions()) {
    if (!instruction->deferred() || !lies_on_device(*instruction)) continue;
    const Value* source = instruction->operands()[0];
    if (source->definition() != nullptr && is_transposed_on_device(*source->definition())) {
      source = source->definition()->operands()[0];
    }
    const Type& type = source->type();
    int64_t count = type.is_ranked() ? 1 : 0;
    for (int axis = 0; axis < (type.is_ranked() ? type.rank() : 0); ++axis) {
      count *= (*type.dims)[static_cast<size_t>(axis)].constant().value_or(0);
    }
    sizes[source] = bytes_for(type.element, count);
  }
  int64_t bytes = 0;
  for (const auto& [source, own] : sizes) bytes += own;
  // The trial takes long: for what surely fits it is not made.
  if (bytes <= plan_.device->free_bytes() / 4 * 3) return;
  Allocator& memory = plan_.device->allocator();
  std::string reason = "its memory is exhausted";
  try {
    void* data = memory.allocate(static_cast<size_t>(bytes), 64);
    if (data != nullptr) return memory.deallocate(data, static_cast<size_t>(bytes));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    reason = error.message();
  }
  fail(ErrorKind::out_of_memory, "the weights of '{}' take {} bytes on {}: {}",
       escape(module_.program().name), bytes, plan_.device->name(), reason);
}

// A copy to the device of literals as they are.
bool ModulePlanner::copies_literals(const Instruction& instruction) const {
  if (!instruction.deferred() || !lies_on_device(instruction) ||
      instruction.result()->uses().empty()) {
    return false;
  }
  const Instruction* source = instruction.operands()[0]->definition();
  if (source != nullptr && is_transposed_on_device(*source)) {
    source = source->operands()[0]->definition();
  }
  return source != nullptr && (source->literal() != nullptr || is_joined_on_device(*source));
}

// Literals are on their way before kernels are chosen, which may take longer than the copies.
void ModulePlanner::upload_literals() {
  for (const auto& instruction : module_.instructions()) {
    check_interrupt();
    if (instruction->op().structural == Structural::literal) {
      plan_literal(*instruction);
    } else if (copies_literals(*instruction)) {
      slot_of(*instruction->result());
    }
  }
}

// Copies a literal to the device, once.
void ModulePlanner::add_device_literal(const Value& value, const Value& source) {
  const auto is_unevaluated = [&](const Value& of, const Op& op) {
    return of.definition() != nullptr && of.definition()->op() == op &&
           unevaluated_.contains(slot_of(of));
  };
  const bool transposed = is_unevaluated(source, ops::transpose);
  const Value& copied = transposed ? *source.definition()->operands()[0] : source;
  const SlotId from = slot_of(copied);
  std::vector<SlotId> parts{from};
  if (is_unevaluated(copied, ops::concat)) {
    parts.clear();
    for (const Value* part : copied.definition()->operands()) parts.push_back(slot_of(*part));
  }
  const SlotId slot = add_slot(value, SlotKind::literal);
  Slot& own = out_.slots[static_cast<size_t>(slot)];
  own.index = static_cast<int>(plan_.literals.size());
  own.space = Space::device;
  const auto add = [&](const Tensor& dense) {
    if (!transposed) return plan_.literals.push_back(dense);
    const Dims& dims = dense.dims();
    plan_.literals.emplace_back(dense.type(), Dims{dims[1], dims[0]}, Dims{1, dims[1]},
                                dense.data(), dense.owner());
  };
  if (const auto known = on_device_.find(from); known != on_device_.end()) {
    const Tensor dense = plan_.literals[static_cast<size_t>(known->second)];
    add(dense);
    return drop_if_taken(copied);
  }
  const auto literal_of = [&](SlotId id) -> const Tensor& {
    return plan_.literals[static_cast<size_t>(out_.slots[static_cast<size_t>(id)].index)];
  };
  const Tensor made = make_tensor(*plan_.device, literal_of(from).type(), literal_of(from).dims());
  int64_t at = 0;
  for (const SlotId part : parts) {
    const Tensor& literal = literal_of(part);
    restore_stored(literal);
    const Tensor dense = literal.aligned().dense();
    const Instruction* made_by = out_.slots[static_cast<size_t>(part)].value->definition();
    const bool kept =
        made_by != nullptr && made_by->literal() != nullptr && dense.data() == literal.data();
    planner_.upload().copy(*plan_.device, static_cast<char*>(made.data()) + at, dense, kept);
    at += dense.byte_size();
  }
  add(made);
  if (!transposed) on_device_.emplace(from, own.index);
  drop_if_taken(copied);
}

void ModulePlanner::plan_deferred(const Instruction& instruction) {
  if (plan_.device != nullptr && lies_on_device(instruction)) {
    return add_device_literal(*instruction.result(), *instruction.operands()[0]);
  }
  if (packed_from_source(instruction) || is_transposed_on_device(instruction) ||
      is_joined_on_device(instruction)) {
    for (const Value& result : instruction.results()) {
      const SlotId slot = add_slot(result, SlotKind::literal);
      unevaluated_.insert(slot);
      out_.slots[static_cast<size_t>(slot)].index = static_cast<int>(plan_.literals.size());
      Dims dims;
      for (const Dim& dim : *result.type().dims) dims.push_back(*dim.constant());
      plan_.literals.push_back(dropped_literal(result.type().element, dims));
    }
    return;
  }
  std::vector<Box> operands;
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) {
      operands.emplace_back();
      continue;
    }
    const SlotId id = slot_of(*operand);
    const Slot& slot = out_.slots[static_cast<size_t>(id)];
    check(slot.kind == SlotKind::literal, ErrorKind::internal,
          "deferred {} uses '%{}', which is not constant", instruction.op().name, operand->name());
    operands.push_back(Box{plan_.literals[static_cast<size_t>(slot.index)]});
    restore_stored(operands.back().tensor());
  }
  std::vector<Box> results =
      evaluate_instruction(instruction, operands, PlanningThreads::current());
  for (size_t i = 0; i < results.size(); ++i) {
    add_literal(*instruction.result(static_cast<int>(i)), results[i].tensor());
  }
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) continue;
    const Tensor& read = plan_.literals[static_cast<size_t>(
        out_.slots[static_cast<size_t>(slots_.at(operand))].index)];
    if (read.byte_size() > kDeferredBytes) release_mapped(read);
    drop_if_taken(*operand);
  }
}

bool ModulePlanner::packed_from_source(const Instruction& instruction) const {
  const auto* packing = dynamic_cast<const PackingSource*>(&planner_.source());
  if (packing == nullptr) return false;
  bool used = false;
  for (const Value& result : instruction.results()) {
    for (const Use& use : result.uses()) {
      used = true;
      const bool packs = use.user != nullptr && use.user->module() == &module_ &&
                         !runs_on_device(*use.user) && kind_of(*use.user) == LaunchKind::kernel &&
                         packing->packs_source(*use.user, use.index);
      if (!packs) return false;
    }
  }
  return used;
}

// Frees what a deferred instruction computed once the kernels of all its users have packed it.
void ModulePlanner::drop_if_taken(const Value& value) {
  const Instruction* definition = value.definition();
  if (definition == nullptr || !definition->deferred()) return;
  const SlotId slot = slots_.at(&value);
  if (reads_.contains(slot) || ++taken_[slot] < std::ssize(value.uses())) return;
  drop_literal(plan_.literals[static_cast<size_t>(out_.slots[static_cast<size_t>(slot)].index)]);
}

std::vector<const Tensor*> ModulePlanner::constants_of(const Launch& launch) const {
  std::vector<const Tensor*> constants;
  for (const SlotId operand : launch.operands) {
    const Slot* slot = operand < 0 ? nullptr : &out_.slots[static_cast<size_t>(operand)];
    const Instruction* source = slot == nullptr ? nullptr : slot->value->definition();
    // Sessions may replace bindable literals.
    const bool is_constant = slot != nullptr && slot->kind == SlotKind::literal &&
                             !unevaluated_.contains(operand) &&
                             (source->literal() == nullptr || !source->literal()->bindable);
    constants.push_back(is_constant ? &plan_.literals[static_cast<size_t>(slot->index)] : nullptr);
  }
  return constants;
}

void release_packed_literals(Plan& plan) {
  std::vector<bool> used(plan.literals.size(), false);
  std::vector<bool> taken(plan.literals.size(), false);
  for (const ModulePlan& module : plan.modules) {
    const auto literal_of = [&](SlotId id) {
      const Slot* slot = id < 0 ? nullptr : &module.slots[static_cast<size_t>(id)];
      return slot == nullptr || slot->kind != SlotKind::literal ? -1 : slot->index;
    };
    for (const Launch& launch : module.launches) {
      for (size_t i = 0; i < launch.operands.size(); ++i) {
        const int literal = literal_of(launch.operands[i]);
        if (literal < 0) continue;
        const bool is_taken =
            launch.kind == LaunchKind::kernel && !launch.kernel->reads(static_cast<int>(i));
        (is_taken ? taken : used)[static_cast<size_t>(literal)] = true;
      }
    }
    for (const SlotId result : module.results) {
      if (literal_of(result) >= 0) used[static_cast<size_t>(literal_of(result))] = true;
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    Tensor& literal = plan.literals[i];
    if (taken[i] && !used[i] && info(literal.type()).bits >= 8) {
      drop_literal(literal);
      continue;
    }
    const StoredConstants* file = stored_constants(literal);
    if (file != nullptr && (taken[i] || used[i])) file->restore_unchecked(literal.data());
  }
}

}  // namespace lathe
