// SPDX-License-Identifier: MIT
#include "capi/dims.h"

#include "ir/infer.h"

namespace lathe::capi {
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

}  // namespace lathe::capi
