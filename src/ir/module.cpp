// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/error.h"
#include "ir/op.h"
#include "ir/program.h"

namespace lathe {
namespace {

void remove_use(std::vector<Use>& uses, const Use& use) {
  const auto at = std::find(uses.begin(), uses.end(), use);
  if (at != uses.end()) uses.erase(at);
}

}  // namespace

void Instruction::set_operand(int index, Value* value) {
  Value*& operand = operands_[static_cast<size_t>(index)];
  if (operand != nullptr) remove_use(operand->uses_, {this, index});
  operand = value;
  if (value != nullptr) value->uses_.push_back({this, index});
}

void Instruction::set_attribute(std::string_view name, Attribute value) {
  const auto at = std::lower_bound(attributes_.begin(), attributes_.end(), name,
                                   [](const auto& a, std::string_view n) { return a.first < n; });
  if (at != attributes_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    attributes_.emplace(at, std::string(name), std::move(value));
  }
}

std::string Module::unique_name(std::string_view hint) {
  if (hint.empty()) {
    std::string name;
    do {
      name = std::to_string(next_number_++);
    } while (names_.contains(name));
    names_.emplace(name, 1);
    return name;
  }
  const auto at = names_.find(hint);
  if (at == names_.end()) {
    names_.emplace(hint, 1);
    return std::string(hint);
  }
  std::string name;
  do {
    name = fmt::format("{}_{}", hint, at->second++);
  } while (names_.contains(name));
  names_.emplace(name, 1);
  return name;
}

Value* Module::add_parameter(Type type, std::string_view name) {
  auto value = std::make_unique<Value>();
  value->type_ = std::move(type);
  value->name_ = unique_name(name);
  value->module_ = this;
  value->index_ = static_cast<int>(parameters_.size());
  parameters_.push_back(std::move(value));
  return parameters_.back().get();
}

void Module::remove_parameter(int index) {
  const auto at = parameters_.begin() + index;
  check((*at)->uses().empty(), ErrorKind::internal, "parameter '{}' of '{}' is still used",
        (*at)->name(), name_);
  names_.erase((*at)->name());
  parameters_.erase(at);
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->index_ = static_cast<int>(i);
}

Instruction* Module::insert(const Op& op, std::vector<Value*> operands, Attributes attributes,
                            std::vector<Module*> bodies, int result_count, Instruction* before,
                            std::string_view name) {
  auto owned = std::make_unique<Instruction>();
  Instruction* instruction = owned.get();
  instruction->op_ = &op;
  instruction->module_ = this;
  instruction->operands_ = std::move(operands);
  instruction->attributes_ = std::move(attributes);
  std::sort(instruction->attributes_.begin(), instruction->attributes_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  instruction->bodies_ = std::move(bodies);
  for (size_t i = 0; i < instruction->operands_.size(); ++i) {
    Value* operand = instruction->operands_[i];
    if (operand != nullptr) operand->uses_.push_back({instruction, static_cast<int>(i)});
  }
  for (int i = 0; i < result_count; ++i) {
    Value& value = instruction->results_.emplace_back();
    value.name_ = unique_name(name);
    value.definition_ = instruction;
    value.module_ = this;
    value.index_ = i;
  }
  const auto place = before == nullptr ? instructions_.end() : before->position_;
  instruction->position_ = instructions_.insert(place, std::move(owned));
  return instruction;
}

void Module::set_results(std::vector<Value*> results, std::vector<std::string> names) {
  for (size_t i = 0; i < results_.size(); ++i) {
    remove_use(results_[i]->uses_, {nullptr, static_cast<int>(i)});
  }
  results_ = std::move(results);
  result_names_ = std::move(names);
  for (size_t i = 0; i < results_.size(); ++i) {
    results_[i]->uses_.push_back({nullptr, static_cast<int>(i)});
  }
}

void Module::set_result(int index, Value* value) {
  Value*& result = results_[static_cast<size_t>(index)];
  remove_use(result->uses_, {nullptr, index});
  result = value;
  value->uses_.push_back({nullptr, index});
}

void Module::remove_result(int index) {
  std::vector<Value*> results = results_;
  std::vector<std::string> names = result_names_;
  results.erase(results.begin() + index);
  names.erase(names.begin() + index);
  set_results(std::move(results), std::move(names));
}

void Module::rename(Value* value, std::string_view name) {
  if (value->name_ == name) return;
  names_.erase(value->name_);
  value->name_ = unique_name(name);
}

void Module::move(Instruction* instruction, Instruction* before) {
  const auto place = before == nullptr ? instructions_.end() : before->position_;
  instructions_.splice(place, instructions_, instruction->position_);
}

void Module::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  for (const Use& use : std::vector<Use>(from->uses_)) {
    if (use.user != nullptr) {
      use.user->set_operand(use.index, to);
    } else {
      set_result(use.index, to);
    }
  }
}

void Module::erase(Instruction* instruction) {
  for (const Value& result : instruction->results_) {
    check(result.uses_.empty(), ErrorKind::internal, "erasing {} while '%{}' is still used",
          instruction->op().name, result.name_);
  }
  for (size_t i = 0; i < instruction->operands_.size(); ++i) {
    instruction->set_operand(static_cast<int>(i), nullptr);
  }
  for (const Value& result : instruction->results_) names_.erase(result.name_);
  instructions_.erase(instruction->position_);
}

void Module::add_guard(Guard guard) {
  if (std::find(guards_.begin(), guards_.end(), guard) == guards_.end()) {
    guards_.push_back(std::move(guard));
  }
}

}  // namespace lathe
