// SPDX-License-Identifier: MIT
#include "passes/place.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/state_chain.h"

namespace lathe {
namespace {

bool is_copy(const Instruction& instruction) { return instruction.op() == ops::copy; }

bool is_literal(const Instruction& instruction) {
  return instruction.op().structural == Structural::literal || instruction.deferred();
}

// The value that copies were made of.
Value* source_of(Value* value) {
  while (value->definition() != nullptr && is_copy(*value->definition())) {
    value = value->definition()->operands()[0];
  }
  return value;
}

// Control flow, and instructions that are compiled when the ranks of their operands are known.
bool needs_executor(const Instruction& instruction) {
  const Structural structural = instruction.op().structural;
  if (structural == Structural::if_ || structural == Structural::loop ||
      structural == Structural::scan) {
    return true;
  }
  if ((instruction.op().traits & kTakesUnranked) != 0) return false;
  return std::ranges::any_of(instruction.operands(), [](const Value* operand) {
    return operand != nullptr && operand->type().is_tensor() && !operand->type().is_ranked();
  });
}

bool reads_on_host(const Instruction& instruction, int operand) {
  return std::ranges::find(instruction.op().on_host, operand) != instruction.op().on_host.end();
}

bool is_paged(const Instruction* read) {
  if (read == nullptr) return false;
  const State* state = read->module()->program().find_state(state_name_of(read->result()));
  return state != nullptr && state->paged;
}

// Reads or updates a paged state.
bool uses_pages(const Instruction& instruction) {
  if (instruction.op() == ops::state_read) return is_paged(&instruction);
  return std::ranges::any_of(instruction.operands(), [](const Value* operand) {
    return operand != nullptr && is_paged(state_read_of(operand));
  });
}

class Placer {
 public:
  Placer(Module& module, const std::function<std::string(const Instruction&)>& supports,
         const std::function<std::string(const Instruction&)>& host_target, bool on_device,
         Boundary boundary)
      : module_(module), supports_(supports), host_target_(host_target), on_device_(on_device) {
    const bool main = &module == &module.program().main();
    device_boundary_ = on_device && main && boundary == Boundary::device;
  }

  void run() {
    if (on_device_) find_host_values();
    const Program& program = module_.program();
    if (on_device_ && &module_ == &program.main()) pages_stay_ = keeps_pages(program, supports_);
    for (const auto& instruction : module_.instructions()) {
      if (!is_literal(*instruction) && !is_copy(*instruction)) {
        instruction->set_target(target_of(*instruction));
      }
    }
    insert_copies();
    remove_unused_copies();
  }

 private:
  // Instructions that compute only what the host reads: shapes.
  void find_host_values() {
    for (auto at = module_.instructions().rbegin(); at != module_.instructions().rend(); ++at) {
      const Instruction& instruction = **at;
      bool read = false;
      bool only = instruction.op().structural < Structural::state_read;
      for (const Value& result : instruction.results()) {
        for (const Use& use : result.uses()) {
          read = true;
          only = only && use.user != nullptr &&
                 (host_.contains(use.user) || reads_on_host(*use.user, use.index));
        }
      }
      if (read && only) host_.insert(&instruction);
    }
  }

  std::string target_of(const Instruction& instruction) const {
    if (needs_executor(instruction)) return std::string(kExecutor);
    if (!pages_stay_ && uses_pages(instruction)) return host_target_(instruction);
    if (!host_.contains(&instruction) && supports_(instruction).empty()) return "";
    return host_target_(instruction);
  }

  // Reuses the copies of an earlier placement.
  void insert_copies() {
    for (auto at = module_.instructions().begin(); at != module_.instructions().end();) {
      Instruction* instruction = (at++)->get();
      if (is_copy(*instruction)) {
        Value* source = source_of(instruction->operands()[0]);
        instruction->set_operand(0, source);
        copies_.emplace(std::pair(source, instruction->target().empty()), instruction->result());
        continue;
      }
      if (is_literal(*instruction)) continue;
      for (size_t i = 0; i < instruction->operands().size(); ++i) {
        Value* operand = instruction->operands()[i];
        if (operand == nullptr) continue;
        const int index = static_cast<int>(i);
        const bool device = instruction->target().empty() && !reads_on_host(*instruction, index);
        Value* placed = placed_value(operand, device, instruction);
        if (placed != operand) instruction->set_operand(index, placed);
      }
    }
    for (size_t i = 0; i < module_.results().size(); ++i) {
      Value* result = module_.results()[i];
      Value* source = source_of(result);
      const bool stays = device_boundary_ && lies_there(*source);
      const bool view = source->definition() != nullptr && source->definition()->op().view;
      Value* placed =
          stays && view ? copy_of(source, true, nullptr) : placed_value(result, stays, nullptr);
      if (placed != result) module_.set_result(static_cast<int>(i), placed);
    }
  }

  Value* placed_value(Value* value, bool device, Instruction* before) {
    Value* source = source_of(value);
    if (!on_device_ || device == lies_there(*source)) return source;
    return copy_of(source, device, before);
  }

  void remove_unused_copies() {
    for (auto at = module_.instructions().end(); at != module_.instructions().begin();) {
      Instruction* instruction = (--at)->get();
      if (!is_copy(*instruction) || !instruction->result()->uses().empty()) continue;
      at = std::next(at);
      module_.erase(instruction);
    }
  }

  // The first instruction that is not the copy of an input; null: none.
  Instruction* after_input_copies() const {
    for (const auto& instruction : module_.instructions()) {
      const bool copies =
          is_copy(*instruction) && instruction->operands()[0]->definition() == nullptr;
      if (!copies) return instruction.get();
    }
    return nullptr;
  }

  bool lies_there(const Value& value) const {
    if (value.definition() != nullptr) return lies_on_device(*value.definition());
    return device_boundary_ && value.type().is_tensor() && !value.type().is_boxed();
  }

  Value* copy_of(Value* value, bool device, Instruction* before) {
    Value*& known = copies_[{value, device}];
    if (known != nullptr) return known;
    // Those of inputs come first, one after the other: small ones cross the bus together.
    const bool input = value->definition() == nullptr && &module_ == &module_.program().main();
    if (input) before = after_input_copies();
    Instruction* copy = module_.insert(ops::copy, {value}, {}, {}, 1, before);
    copy->result()->set_type(value->type());
    copy->result()->set_elements(value->elements());
    if (!device) copy->set_target(kExecutor);
    // Literals are copied once, when the plan is made.
    const Instruction* source = value->definition();
    const bool bindable =
        source != nullptr && source->literal() != nullptr && source->literal()->bindable;
    copy->set_deferred(source != nullptr && is_literal(*source) && !bindable);
    return known = copy->result();
  }

  Module& module_;
  const std::function<std::string(const Instruction&)>& supports_;
  const std::function<std::string(const Instruction&)>& host_target_;
  bool on_device_;
  bool device_boundary_ = false;
  bool pages_stay_ = true;
  std::set<const Instruction*> host_;
  std::map<std::pair<const Value*, bool>, Value*> copies_;
};

using Placement = std::vector<std::pair<const Op*, std::string>>;

Placement placement_of(const std::vector<Module*>& modules) {
  Placement placement;
  for (const Module* module : modules) {
    for (const auto& instruction : module->instructions()) {
      placement.emplace_back(&instruction->op(), instruction->target());
    }
  }
  return placement;
}

// The modules that run: specifications of lowered instructions and of regions are not placed.
void collect(Module& module, std::vector<Module*>& out) {
  out.push_back(&module);
  for (const auto& instruction : module.instructions()) {
    if (instruction->op() == ops::region) continue;
    for (Module* body : instruction->bodies()) collect(*body, out);
  }
}

}  // namespace

bool keeps_pages(const Program& program,
                 const std::function<std::string(const Instruction&)>& supports) {
  return std::ranges::all_of(program.main().instructions(), [&](const auto& instruction) {
    return !uses_pages(*instruction) || supports(*instruction).empty();
  });
}

bool lies_on_device(const Instruction& definition) {
  if (is_copy(definition)) return definition.target().empty();
  return definition.target().empty() && !is_literal(definition);
}

bool input_lies_on_device(const Value& input) {
  return std::ranges::any_of(input.uses(), [](const Use& use) {
    if (use.user == nullptr) return false;
    const bool device = use.user->target().empty() && !reads_on_host(*use.user, use.index);
    return is_copy(*use.user) ? !device : device;
  });
}

bool has_device_boundary(const Program& program) {
  const Module& main = program.main();
  return std::ranges::any_of(
             main.parameters(),
             [](const auto& parameter) { return input_lies_on_device(*parameter); }) ||
         std::ranges::any_of(main.results(), [](const Value* result) {
           return result->definition() != nullptr && lies_on_device(*result->definition());
         });
}

Pass place(std::function<std::string(const Instruction&)> supports,
           std::function<std::string(const Instruction&)> host_target, bool on_device,
           Boundary boundary) {
  return {.name = "place",
          .doc = "Sets the target of each instruction and inserts copies between memories.",
          .run = [supports = std::move(supports), host_target = std::move(host_target), on_device,
                  boundary](Program& program) {
            std::vector<Module*> modules;
            collect(program.main(), modules);
            const Placement before = placement_of(modules);
            for (Module* module : modules) {
              Placer(*module, supports, host_target, on_device, boundary).run();
            }
            return before != placement_of(modules);
          }};
}

}  // namespace lathe
