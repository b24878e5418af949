// SPDX-License-Identifier: MIT
#include "targets/fix_dims.h"

#include <algorithm>

#include "base/error.h"
#include "base/error_reason.h"
#include "ir/infer.h"

namespace lathe {
namespace {

Type substituted(Type type, const FixedDims& fixed) {
  if (type.dims) {
    for (Dim& dim : *type.dims) dim = dim.substitute(fixed);
  }
  if (type.item != nullptr)
    type.item = std::make_shared<const Type>(substituted(*type.item, fixed));
  return type;
}

Attribute substituted(const Attribute& attribute, const FixedDims& fixed) {
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attribute)) {
    std::vector<Dim> out;
    for (const Dim& dim : *dims) out.push_back(dim.substitute(fixed));
    return out;
  }
  if (const auto* type = std::get_if<Type>(&attribute)) return substituted(*type, fixed);
  return attribute;
}

}  // namespace

void fix_dims(Program& program, const FixedDims& fixed) {
  for (const auto& module : program.modules()) {
    module->guards().clear();
    for (const auto& parameter : module->parameters()) {
      parameter->set_type(substituted(parameter->type(), fixed));
    }
    for (const auto& instruction : module->instructions()) {
      const Attributes attributes = instruction->attributes();
      for (const auto& [name, value] : attributes) {
        const AttributeKind kind = kind_of(value);
        if (kind != AttributeKind::dims && kind != AttributeKind::type) continue;
        instruction->set_attribute(name, substituted(value, fixed));
      }
    }
  }
  for (State& state : program.states()) state.type = substituted(state.type, fixed);
  infer(program.main());
  for (const auto& [name, dim] : fixed) program.remove_symbol(name);
}

void set_dims(Program& program, const std::vector<DimRange>& dims) {
  FixedDims fixed;
  for (const DimRange& dim : dims) {
    const SymbolRef known = program.find_symbol(dim.name);
    if (known == nullptr || known->kind != SymbolKind::bound) {
      std::vector<std::string_view> names;
      for (const auto& [other, symbol] : program.symbols()) names.push_back(other);
      fail({ErrorKind::invalid_argument, reason::kUnknownName}, "'{}' has no dim '{}'{}",
           escape(program.name), escape(dim.name), did_you_mean(dim.name, names));
    }
    check(!fixed.contains(dim.name), ErrorKind::invalid_argument, "dim '{}' is set twice",
          escape(dim.name));
    // What was simplified for the range that a program has may not hold beyond it.
    check(known->range.min <= dim.range.min && dim.range.max <= known->range.max,
          ErrorKind::invalid_argument, "dim '{}' is in {}..{} in '{}', requested is {}..{}",
          escape(dim.name), known->range.min, known->range.max, escape(program.name), dim.range.min,
          dim.range.max);
    if (dim.range.min == dim.range.max) {
      fixed.insert_or_assign(dim.name, Dim(dim.range.min));
      continue;
    }
    Symbol changed = *known;
    changed.range = dim.range;
    changed.preferred = dim.preferred;
    std::ranges::sort(changed.preferred);
    program.redefine_symbol(changed);
  }
  if (!fixed.empty()) fix_dims(program, fixed);
}

}  // namespace lathe
