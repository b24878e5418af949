// SPDX-License-Identifier: MIT
#include "runtime/lockstep.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ir/ops.h"

namespace lathe {
namespace {

bool is_narrow_integer(ElementType type) { return is_integer(type) && info(type).bits <= 8; }

bool has_found_symbol(const Type& type) {
  std::vector<SymbolRef> symbols;
  for (const Dim& dim : *type.dims) dim.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](const SymbolRef& symbol) { return symbol->kind == SymbolKind::found; });
}

// True for activations. Shape arithmetic is not replaced: types depend on it.
bool is_replaceable(const Value& value) {
  const Instruction* instruction = value.definition();
  const Type& type = value.type();
  return instruction != nullptr && !instruction->deferred() && instruction->literal() == nullptr &&
         type.is_ranked() && (is_floating(type.element) || is_narrow_integer(type.element)) &&
         !has_found_symbol(type) && !value.name().empty();
}

// `b` may be a region, which has the origins of all that it computes.
bool same_origin(const Instruction& a, const Instruction& b) {
  if (a.origins().empty() || b.origins().empty()) return a.origins().empty() == b.origins().empty();
  const Origin& x = a.origins().front();
  return std::ranges::any_of(b.origins(), [&](const Origin& y) {
    return x.node == y.node && x.op_type == y.op_type && x.index == y.index && x.file == y.file;
  });
}

// The literal scale of an instruction between bytes and floats in a region's body; 0: none.
double scale_in_region(const Instruction& inner, const Instruction& region) {
  const Value* scale = inner.operands()[1];
  if (scale->definition() == nullptr) {
    scale = region.operands()[static_cast<size_t>(scale->index())];
  }
  const Instruction* definition = scale->definition();
  if (definition == nullptr || definition->literal() == nullptr) return 0;
  const Tensor& tensor = definition->literal()->tensor;
  return tensor.type() == ElementType::f32 && tensor.count() == 1 ? tensor.as<float>()[0] : 0;
}

int64_t most_steps(const Instruction& region) {
  int64_t steps = 1;
  if (region.op() != ops::region) return steps;
  const auto& body = region.bodies()[0]->instructions();
  const Instruction& last = *body.back();
  const double result_scale = last.op() == ops::quantize_linear ? scale_in_region(last, region) : 0;
  for (const auto& inner : body) {
    const Instruction* source =
        inner->op() == ops::dequantize_linear ? inner->operands()[0]->definition() : nullptr;
    if (source == nullptr || !(result_scale > 0)) continue;
    const double ratio = std::abs(scale_in_region(*inner, region)) / result_scale;
    steps += static_cast<int64_t>(std::ceil(std::min(ratio, 255.0)));
  }
  return steps;
}

std::map<std::string, Value*, std::less<>> replaceable_values(const Module& module) {
  std::map<std::string, Value*, std::less<>> values;
  for (const auto& instruction : module.instructions()) {
    for (size_t i = 0; i < instruction->results().size(); ++i) {
      Value* value = instruction->result(static_cast<int>(i));
      if (is_replaceable(*value)) values.emplace(value->name(), value);
    }
  }
  return values;
}

}  // namespace

bool quantises_at_run_time(const Instruction& instruction) {
  if (instruction.deferred() || instruction.literal() != nullptr) return false;
  if (instruction.op() == ops::region) {
    return std::ranges::any_of(instruction.bodies()[0]->instructions(),
                               [](const auto& inner) { return quantises_at_run_time(*inner); });
  }
  const Attribute* compute = find_attribute(instruction.attributes(), "compute_type");
  if (compute != nullptr) {
    const auto* type = std::get_if<ElementType>(compute);
    const auto* text = std::get_if<std::string>(compute);
    if (type != nullptr && is_narrow_integer(*type)) return true;
    if (text != nullptr && *text == "int8") return true;
  }
  const auto& operands = instruction.operands();
  if (operands.empty() || operands[0] == nullptr || !operands[0]->type().is_tensor()) return false;
  const Instruction* source = operands[0]->definition();
  const bool is_constant =
      source != nullptr && (source->deferred() || source->literal() != nullptr);
  return !is_constant && is_floating(operands[0]->type().element) &&
         !instruction.results().empty() && instruction.result()->type().is_tensor() &&
         is_narrow_integer(instruction.result()->type().element);
}

Lockstep make_lockstep(const Program& reference, const Program& other) {
  Lockstep out{reference.clone(), other.clone(), {}};
  Module& reference_main = out.reference->main();
  Module& other_main = out.other->main();
  const auto candidates = replaceable_values(reference_main);
  std::vector<Value*> shared;
  std::vector<Value*> own;
  for (const auto& [name, value] : replaceable_values(other_main)) {
    const auto found = candidates.find(name);
    if (found == candidates.end() || !(found->second->type() == value->type()) ||
        !same_origin(*found->second->definition(), *value->definition())) {
      continue;
    }
    shared.push_back(found->second);
    own.push_back(value);
    const Instruction& definition = *value->definition();
    out.values.push_back({name, quantises_at_run_time(definition), most_steps(definition)});
  }
  std::vector<std::string> names;
  for (const Lockstep::Value& value : out.values) names.push_back(value.name);
  for (Value* value : own) {
    Value* given = other_main.add_parameter(value->type(), value->name());
    other_main.replace_uses(value, given);
  }
  reference_main.set_results(std::move(shared), names);
  other_main.set_results(std::move(own), names);
  return out;
}

}  // namespace lathe
