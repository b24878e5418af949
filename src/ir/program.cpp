// SPDX-License-Identifier: MIT
#include "ir/program.h"

#include <algorithm>

#include <array>

#include "base/error.h"

namespace lathe {

bool is_layout(const std::vector<int>& layout, const Type& type) {
  if (type.is_boxed() || !type.is_ranked() || std::ssize(layout) != type.rank()) return false;
  std::vector<int> sorted = layout;
  std::ranges::sort(sorted);
  for (int axis = 0; axis < type.rank(); ++axis) {
    if (sorted[static_cast<size_t>(axis)] != axis) return false;
  }
  return true;
}
namespace {

constexpr std::array<std::string_view, 5> kStateKinds{"append", "window", "scatter", "carry",
                                                      "cross"};
constexpr std::array<std::string_view, 3> kSymbolKinds{"bound", "length", "found"};
constexpr std::array<std::string_view, 6> kStages{"imported", "canonical", "optimised",
                                                  "fused",    "lowered",   "planned"};

}  // namespace

std::string_view to_string(StateKind kind) { return kStateKinds[static_cast<size_t>(kind)]; }
std::string_view to_string(SymbolKind kind) { return kSymbolKinds[static_cast<size_t>(kind)]; }
std::string_view to_string(Stage stage) { return kStages[static_cast<size_t>(stage)]; }

std::optional<Stage> stage_from_name(std::string_view name) {
  for (size_t i = 0; i < kStages.size(); ++i) {
    if (kStages[i] == name) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

bool operator==(const Guard& x, const Guard& y) {
  return x.kind == y.kind && x.relation == y.relation && x.a == y.a && x.b == y.b;
}

Program::Program() { add_module("main"); }
Program::~Program() = default;

Module* Program::find_module(std::string_view module_name) const {
  for (const auto& module : modules_) {
    if (module->name() == module_name) return module.get();
  }
  return nullptr;
}

Module& Program::add_module(std::string_view wanted_name) {
  std::string unique(wanted_name);
  for (int n = 1; find_module(unique) != nullptr; ++n) {
    unique = fmt::format("{}_{}", wanted_name, n);
  }
  modules_.push_back(std::make_unique<Module>());
  modules_.back()->program_ = this;
  modules_.back()->name_ = std::move(unique);
  return *modules_.back();
}

void Program::remove_module(Module* module) {
  std::erase_if(modules_, [&](const auto& m) { return m.get() == module; });
}

SymbolRef Program::find_symbol(std::string_view symbol_name) const {
  const auto at = symbols_.find(symbol_name);
  return at == symbols_.end() ? nullptr : at->second;
}

SymbolRef Program::add_symbol(std::string_view hint, SymbolKind kind, Range range,
                              std::vector<int64_t> preferred) {
  std::string unique(hint);
  for (int n = 1; symbols_.contains(unique); ++n) unique = fmt::format("{}_{}", hint, n);
  auto symbol = std::make_shared<const Symbol>(Symbol{unique, kind, range, std::move(preferred)});
  symbols_.emplace(unique, symbol);
  return symbol;
}

SymbolRef Program::redefine_symbol(const Symbol& symbol) {
  auto fresh = std::make_shared<const Symbol>(symbol);
  symbols_.insert_or_assign(symbol.name, fresh);
  return fresh;
}

const State* Program::find_state(std::string_view state_name) const {
  for (const State& state : states_) {
    if (state.name == state_name) return &state;
  }
  return nullptr;
}

std::unique_ptr<Program> Program::clone() const {
  auto copy = std::make_unique<Program>();
  copy->name = name;
  copy->stage = stage;
  copy->metadata = metadata;
  copy->model = model;
  copy->symbols_ = symbols_;
  copy->states_ = states_;
  std::map<const Module*, Module*> modules;
  for (const auto& module : modules_) {
    Module& target =
        module.get() == modules_.front().get() ? copy->main() : copy->add_module(module->name());
    modules[module.get()] = &target;
  }
  std::map<const Value*, Value*> values{{nullptr, nullptr}};
  for (const auto& module : modules_) {
    Module& target = *modules.at(module.get());
    for (const auto& parameter : module->parameters()) {
      Value* twin = target.add_parameter(parameter->type(), parameter->name());
      twin->set_elements(parameter->elements());
      values[parameter.get()] = twin;
    }
    for (const auto& instruction : module->instructions()) {
      std::vector<Value*> operands;
      for (const Value* operand : instruction->operands()) operands.push_back(values.at(operand));
      std::vector<Module*> bodies;
      for (const Module* body : instruction->bodies()) bodies.push_back(modules.at(body));
      Instruction* twin =
          target.insert(instruction->op(), std::move(operands), instruction->attributes(),
                        std::move(bodies), static_cast<int>(instruction->results().size()));
      twin->literal_ = instruction->literal_;
      twin->origins_ = instruction->origins_;
      twin->found_ = instruction->found_;
      twin->deferred_ = instruction->deferred_;
      twin->target_ = instruction->target_;
      if (instruction->implements_ != nullptr) {
        twin->implements_ = modules.at(instruction->implements_);
      }
      for (size_t i = 0; i < instruction->results_.size(); ++i) {
        const Value& from = instruction->results_[i];
        Value& to = twin->results_[i];
        to.type_ = from.type_;
        to.elements_ = from.elements_;
        to.layout_ = from.layout_;
        to.name_ = from.name_;
        values[&from] = &to;
      }
    }
    std::vector<Value*> results;
    for (const Value* result : module->results()) results.push_back(values.at(result));
    target.set_results(std::move(results), module->result_names());
    target.guards() = module->guards();
    target.names_ = module->names_;
    target.next_number_ = module->next_number_;
  }
  return copy;
}

}  // namespace lathe
