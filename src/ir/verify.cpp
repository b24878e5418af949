// SPDX-License-Identifier: MIT
#include "ir/verify.h"

#include <algorithm>
#include <array>

#include "ir/print.h"
#include "ir/verifier.h"

namespace lathe {
namespace {

// A construct that is invalid between two stages.
struct StageSpec {
  Stage first;
  Stage last;
  std::string_view what;
  bool (*appears)(const Instruction& instruction);
};

constexpr std::array kStageSpecs{
    StageSpec{Stage::imported, Stage::imported, "a deferred instruction",
              [](const Instruction& i) { return i.deferred(); }},
    StageSpec{Stage::imported, Stage::fused, "an instruction that implements a module",
              [](const Instruction& i) { return i.implements() != nullptr; }},
};

}  // namespace

std::string Verifier::place(const Instruction& instruction) const {
  return fmt::format("{} in @{}", print(instruction, {.inline_bytes = 64, .origins = false}),
                     escape(instruction.module()->name()));
}

void Verifier::collect() {
  for (const auto& module : program_.modules()) {
    owners_.emplace(module.get(), 0);
    for (const auto& parameter : module->parameters())
      values_.emplace(parameter.get(), module.get());
    for (const auto& instruction : module->instructions()) {
      instructions_.insert(instruction.get());
      for (const Value& result : instruction->results()) values_.emplace(&result, module.get());
    }
  }
}

void Verifier::check_structure() {
  collect();
  std::set<std::string> names;
  for (const auto& module : program_.modules()) {
    if (!names.insert(module->name()).second) problem("two modules are named @{}", module->name());
    if (&module->program() != &program_) problem("@{} belongs to another program", module->name());
    check_module(*module);
    check_uses(*module);
  }
  check_bodies();
}

void Verifier::check_module(const Module& module) {
  std::set<std::string> names;
  std::unordered_set<const Value*> seen;
  const auto define = [&](const Value& value) {
    if (!names.insert(value.name()).second || value.name().empty()) {
      problem("two values of @{} are named '%{}'", module.name(), escape(value.name()));
    }
    if (value.module() != &module) {
      problem("'%{}' is in @{}, but belongs to another module", escape(value.name()),
              module.name());
    }
    seen.insert(&value);
  };
  for (const auto& parameter : module.parameters()) define(*parameter);
  for (const auto& instruction : module.instructions()) {
    if (instruction->module() != &module) {
      problem("an instruction {} is in @{}, but belongs to another module", instruction->op().name,
              module.name());
      continue;
    }
    check_operands(*instruction, seen);
    for (const Value& result : instruction->results()) define(result);
  }
  for (size_t i = 0; i < module.results().size(); ++i) {
    if (!seen.contains(module.results()[i])) {
      problem("result {} of @{} is not a value of that module", i, module.name());
    }
  }
  if (!module.result_names().empty() && module.result_names().size() != module.results().size()) {
    problem("@{} has {} results and {} names for them", module.name(), module.results().size(),
            module.result_names().size());
  }
}

void Verifier::check_operands(const Instruction& instruction,
                              const std::unordered_set<const Value*>& seen) {
  const std::string& module = instruction.module()->name();
  for (size_t i = 0; i < instruction.operands().size(); ++i) {
    const Value* operand = instruction.operands()[i];
    if (operand == nullptr || seen.contains(operand)) continue;
    const auto home = values_.find(operand);
    // The operand is dereferenced only if the program still has it.
    const std::string_view what = instruction.op().name;
    if (home == values_.end()) {
      problem("operand {} of a {} in @{} is not a value of the program", i, what, module);
    } else if (home->second == instruction.module()) {
      problem("operand '%{}' of a {} in @{} is defined after it", escape(operand->name()), what,
              module);
    } else {
      problem("operand '%{}' of a {} in @{} belongs to @{}", escape(operand->name()), what, module,
              home->second->name());
    }
  }
}

// Compares use lists with operands and module results, in both directions.
void Verifier::check_uses(const Module& module) {
  std::unordered_map<const Value*, std::vector<Use>> actual;
  for (const auto& instruction : module.instructions()) {
    for (size_t i = 0; i < instruction->operands().size(); ++i) {
      actual[instruction->operands()[i]].push_back({instruction.get(), static_cast<int>(i)});
    }
  }
  for (size_t i = 0; i < module.results().size(); ++i) {
    actual[module.results()[i]].push_back({nullptr, static_cast<int>(i)});
  }
  for (const auto& parameter : module.parameters()) {
    check_uses_of(*parameter, actual[parameter.get()]);
  }
  for (const auto& instruction : module.instructions()) {
    for (const Value& result : instruction->results()) check_uses_of(result, actual[&result]);
  }
}

void Verifier::check_uses_of(const Value& value, const std::vector<Use>& actual) {
  std::vector<Use> listed = value.uses();
  std::vector<Use> expected = actual;
  const auto before = [](const Use& a, const Use& b) {
    return std::pair(a.user, a.index) < std::pair(b.user, b.index);
  };
  std::sort(listed.begin(), listed.end(), before);
  std::sort(expected.begin(), expected.end(), before);
  if (listed != expected) {
    problem("'%{}' lists {} uses, but {} operands and results use it, or different ones",
            escape(value.name()), listed.size(), expected.size());
  }
}

void Verifier::check_bodies() {
  for (const auto& module : program_.modules()) {
    for (const auto& instruction : module->instructions()) {
      const auto own = [&](const Module* body) {
        const auto at = owners_.find(body);
        if (at == owners_.end()) {
          problem("a {} in @{} has a body that is not a module of the program",
                  instruction->op().name, module->name());
        } else if (++at->second > 1) {
          problem("@{} is the body of {} instructions", body->name(), at->second);
        } else if (body == &program_.main()) {
          problem("a {} in @{} has @main as its body", instruction->op().name, module->name());
        }
      };
      for (const Module* body : instruction->bodies()) own(body);
      if (instruction->implements() != nullptr) {
        own(instruction->implements());
        implementations_.insert(instruction->implements());
      }
    }
  }
  if (!is_sound()) return;
  for (const auto& module : program_.modules()) {
    std::set<const Module*> path;
    check_cycles(*module, path);
  }
}

void Verifier::check_cycles(const Module& module, std::set<const Module*>& path) {
  if (!path.insert(&module).second) {
    problem("@{} contains itself", module.name());
    return;
  }
  for (const auto& instruction : module.instructions()) {
    for (const Module* body : instruction->bodies()) check_cycles(*body, path);
    if (instruction->implements() != nullptr) check_cycles(*instruction->implements(), path);
  }
  path.erase(&module);
}

void Verifier::check_stage(bool under_way) {
  for (const StageSpec& spec : kStageSpecs) {
    if (program_.stage < spec.first || program_.stage > spec.last) continue;
    if (under_way && program_.stage == spec.last) continue;
    for (const auto& module : program_.modules()) {
      // Implemented modules keep the form of their original stage.
      if (implementations_.contains(module.get())) continue;
      for (const auto& instruction : module->instructions()) {
        if (!spec.appears(*instruction)) continue;
        problem("{} may not appear at stage {}: {}", spec.what, to_string(program_.stage),
                place(*instruction));
      }
    }
  }
}

std::vector<std::string> find_problems(const Program& program, const VerifyOptions& options) {
  Verifier verifier(program);
  verifier.check_structure();
  if (verifier.is_sound()) {
    verifier.check_types();
    verifier.check_symbols();
    verifier.check_states();
    if (options.stage_spec) verifier.check_stage(options.under_way);
  }
  return verifier.take_problems();
}

void verify(const Program& program, const VerifyOptions& options) {
  const std::vector<std::string> problems = find_problems(program, options);
  if (problems.empty()) return;
  Error error(ErrorKind::internal,
              fmt::format("program '{}' is invalid at stage {}: {}", escape(program.name),
                          to_string(program.stage), problems.front()));
  for (size_t i = 1; i < problems.size(); ++i) error.note(problems[i]);
  throw error;
}

}  // namespace lathe
