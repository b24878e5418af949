// SPDX-License-Identifier: MIT
#include "passes/link_programs.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/infer.h"

namespace lathe {
namespace {

class Linker {
 public:
  Linker() : program_(std::make_unique<Program>()), main_(program_->main()) {}

  void add(const ProgramPart& part) {
    const Program& from = *part.program;
    check(from.states().empty() && from.stage == Stage::imported, ErrorKind::invalid_argument,
          "'{}' has {} states and is {}, expected as imported", escape(from.name),
          from.states().size(), to_string(from.stage));
    if (program_->name.empty()) program_->name = from.name;
    dims_.clear();
    modules_.clear();
    values_ = {{nullptr, nullptr}};
    for (const auto& parameter : from.main().parameters()) match_dims(*parameter);
    name_symbols(from);
    for (const auto& module : from.modules()) {
      modules_[module.get()] =
          module.get() == &from.main() ? &main_ : &program_->add_module(module->name());
    }
    for (const auto& module : from.modules()) copy(*module, module.get() == &from.main());
    const auto& names = from.main().result_names();
    for (size_t i = 0; i < names.size(); ++i) {
      Value* value = values_.at(from.main().results()[i]);
      add_result(names[i], value);
      results_.emplace_back(names[i], value);
      const auto other = part.forwarded.find(names[i]);
      if (other == part.forwarded.end()) continue;
      add_result(other->second, value);
      aliases_[other->second] = names[i];
    }
  }

  std::unique_ptr<Program> finish() {
    std::vector<Value*> values;
    std::vector<std::string> names;
    for (const auto& [name, value] : results_) {
      if (consumed_.contains(name)) continue;
      names.push_back(name);
      values.push_back(value);
    }
    main_.set_results(std::move(values), std::move(names));
    infer(main_);
    return std::move(program_);
  }

 private:
  void add_result(const std::string& name, Value* value) {
    const bool fresh = produced_.emplace(name, value).second;
    check(fresh, ErrorKind::invalid_model, "two parts of '{}' produce a result '{}'",
          escape(program_->name), escape(name));
  }

  Value* find_value(const std::string& name) const {
    const auto produced = produced_.find(name);
    if (produced != produced_.end()) return produced->second;
    for (const auto& parameter : main_.parameters()) {
      if (parameter->name() == name) return parameter.get();
    }
    return nullptr;
  }

  // Dimension symbols may have other names in an earlier part: 'batch' here, 'N' there.
  void match_dims(const Value& parameter) {
    const Value* value = find_value(parameter.name());
    if (value == nullptr || !parameter.type().is_ranked() || !value->type().is_ranked()) return;
    check(parameter.type().rank() == value->type().rank() &&
              parameter.type().element == value->type().element,
          ErrorKind::invalid_model,
          "'{}' is {} in the part that produces it, {} in the part that reads it",
          escape(parameter.name()), value->type().to_string(), parameter.type().to_string());
    for (size_t axis = 0; axis < parameter.type().dims->size(); ++axis) {
      const SymbolRef symbol = (*parameter.type().dims)[axis].as_symbol();
      if (symbol != nullptr) dims_.emplace(symbol->name, (*value->type().dims)[axis]);
    }
  }

  // Symbols of inputs keep their names; data-dependent symbols are renamed on a clash.
  void name_symbols(const Program& from) {
    for (const auto& [name, symbol] : from.symbols()) {
      if (dims_.contains(name)) continue;
      const SymbolRef own = program_->find_symbol(name);
      const bool shared =
          own != nullptr && symbol->kind == SymbolKind::bound && own->kind == SymbolKind::bound;
      dims_.emplace(name, shared ? own
                                 : program_->add_symbol(name, symbol->kind, symbol->range,
                                                        symbol->preferred));
    }
  }

  Type renamed(Type type) const {
    if (!type.is_ranked()) return type;
    for (Dim& dim : *type.dims) dim = dim.substitute(dims_);
    return type;
  }

  void copy(const Module& module, bool is_main) {
    Module& target = *modules_.at(&module);
    for (const auto& parameter : module.parameters()) {
      Value* value = is_main ? find_value(parameter->name()) : nullptr;
      if (value != nullptr) {
        mark_consumed(parameter->name());
      } else {
        value = target.add_parameter(renamed(parameter->type()), parameter->name());
      }
      values_[parameter.get()] = value;
    }
    for (const auto& instruction : module.instructions()) copy(*instruction, target);
    if (is_main) return;
    std::vector<Value*> results;
    for (const Value* result : module.results()) results.push_back(values_.at(result));
    target.set_results(std::move(results), module.result_names());
  }

  void copy(const Instruction& instruction, Module& target) {
    std::vector<Value*> operands;
    for (const Value* operand : instruction.operands()) operands.push_back(values_.at(operand));
    std::vector<Module*> bodies;
    for (const Module* body : instruction.bodies()) bodies.push_back(modules_.at(body));
    const size_t count = instruction.results().size();
    Instruction* twin = target.insert(
        instruction.op(), std::move(operands), instruction.attributes(), std::move(bodies),
        static_cast<int>(count), nullptr, count > 0 ? instruction.result()->name() : "");
    twin->set_literal(instruction.literal());
    twin->set_origins(instruction.origins());
    twin->set_deferred(instruction.deferred());
    for (const SymbolRef& symbol : instruction.found()) {
      const SymbolRef own = dims_.at(symbol->name).as_symbol();
      check(own != nullptr, ErrorKind::internal, "symbol '{}' was substituted by an expression",
            escape(symbol->name));
      twin->add_found(own);
    }
    for (size_t i = 0; i < count; ++i) {
      const Value& from = instruction.results()[i];
      Value* to = twin->result(static_cast<int>(i));
      to->set_type(renamed(from.type()));
      values_[&from] = to;
    }
  }

  // Marks the result that a later part reads, under its own name.
  void mark_consumed(const std::string& name) {
    const auto alias = aliases_.find(name);
    if (produced_.contains(name)) consumed_.insert(alias == aliases_.end() ? name : alias->second);
  }

  std::unique_ptr<Program> program_;
  Module& main_;
  std::map<std::string, Dim, std::less<>> dims_;  // symbols of the current part
  std::map<const Module*, Module*> modules_;
  std::map<const Value*, Value*> values_;
  std::map<std::string, Value*> produced_;
  std::map<std::string, std::string> aliases_;  // forwarded name → name of the result
  std::vector<std::pair<std::string, Value*>> results_;
  std::set<std::string> consumed_;
};

// True if `part` has an input that `other` produces.
bool depends_on(const ProgramPart& part, const ProgramPart& other) {
  std::set<std::string> produced(other.program->main().result_names().begin(),
                                 other.program->main().result_names().end());
  for (const auto& [name, input] : other.forwarded) produced.insert(input);
  return std::ranges::any_of(part.program->main().parameters(), [&](const auto& parameter) {
    return produced.contains(parameter->name());
  });
}

}  // namespace

std::unique_ptr<Program> link_programs(std::span<const ProgramPart> parts) {
  std::vector<const ProgramPart*> rest;
  for (const ProgramPart& part : parts) rest.push_back(&part);
  Linker linker;
  while (!rest.empty()) {
    const auto next = std::ranges::find_if(rest, [&](const ProgramPart* part) {
      return std::ranges::none_of(rest, [&](const ProgramPart* other) {
        return other != part && depends_on(*part, *other);
      });
    });
    check(next != rest.end(), ErrorKind::invalid_model,
          "{} parts depend on one another in a cycle, including '{}'", rest.size(),
          escape(rest.front()->program->name));
    linker.add(**next);
    rest.erase(next);
  }
  return linker.finish();
}

}  // namespace lathe
