// SPDX-License-Identifier: MIT
#include "ir/builder.h"

#include <map>

#include "ir/ops.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// Fills in defaults and checks names and kinds against the op's record.
Attributes complete_attributes(const Op& op, Attributes given) {
  Attributes out;
  for (auto& [name, value] : given) {
    const AttributeSpec* spec = op.find_attribute_spec(name);
    if (spec == nullptr) {
      std::vector<std::string_view> names;
      for (const AttributeSpec& known : op.attributes) names.push_back(known.name);
      fail(ErrorKind::invalid_argument, "{}: unknown attribute '{}'{}", op.name, escape(name),
           did_you_mean(name, names));
    }
    // An integer converts to a number.
    if (spec->kind == AttributeKind::number && kind_of(value) == AttributeKind::integer) {
      value = static_cast<double>(std::get<int64_t>(value));
    }
    check(kind_of(value) == spec->kind, ErrorKind::invalid_argument,
          "{}: attribute '{}' is {}, expected {}", op.name, name, to_string(kind_of(value)),
          to_string(spec->kind));
    out.emplace_back(name, std::move(value));
  }
  for (const AttributeSpec& spec : op.attributes) {
    bool present = false;
    for (const auto& [name, value] : out) present |= name == spec.name;
    if (present) continue;
    check(!spec.required, ErrorKind::invalid_argument, "{}: attribute '{}' is missing", op.name,
          spec.name);
    if (spec.has_fallback) out.emplace_back(std::string(spec.name), spec.fallback);
  }
  return out;
}

}  // namespace

Instruction* Builder::add(const Op& op, std::vector<Value*> operands, Attributes attributes,
                          std::vector<Module*> bodies, int results, std::string_view name) {
  // Trailing absent operands are dropped.
  while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
  check(bodies.size() == op.bodies.size(), ErrorKind::invalid_argument,
        "{}: got {} bodies, expected {}", op.name, bodies.size(), op.bodies.size());
  const int count = op.results >= 0 ? op.results : results;
  Instruction* instruction =
      module_->insert(op, std::move(operands), complete_attributes(op, std::move(attributes)),
                      std::move(bodies), count, before_, name);
  instruction->set_origins(origins_);
  try {
    if (op.bind_bodies != nullptr) op.bind_bodies(*instruction);
    infer(*instruction);
  } catch (...) {
    module_->erase(instruction);
    throw;
  }
  return instruction;
}

Value* Builder::operator()(const Op& op, std::vector<Value*> operands, Attributes attributes) {
  return add(op, std::move(operands), std::move(attributes))->result();
}

Instruction* Builder::add(std::string_view op, std::vector<Value*> operands, Attributes attributes,
                          std::vector<Module*> bodies, int results, std::string_view name) {
  return add(get_op(op), std::move(operands), std::move(attributes), std::move(bodies), results,
             name);
}

Value* Builder::operator()(std::string_view op, std::vector<Value*> operands,
                           Attributes attributes) {
  return (*this)(get_op(op), std::move(operands), std::move(attributes));
}

Value* Builder::literal(LiteralRef literal, std::string_view name) {
  Instruction* instruction = module_->insert(ops::literal, {}, {}, {}, 1, before_, name);
  instruction->set_origins(origins_);
  instruction->set_literal(std::move(literal));
  infer(*instruction);
  return instruction->result();
}

Value* Builder::literal(Tensor tensor, std::string_view name) {
  auto literal = std::make_shared<Literal>();
  literal->tensor = std::move(tensor);
  return this->literal(LiteralRef(std::move(literal)), name);
}

Value* Builder::scalar(ElementType type, double value) {
  Tensor tensor(type, {});
  convert(type, tensor.data(), ElementType::f64, &value, 1);
  return literal(std::move(tensor));
}

Value* Builder::integers(const std::vector<int64_t>& values) {
  Tensor tensor(ElementType::i64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<int64_t>());
  return literal(std::move(tensor));
}

Value* Builder::dims(const std::vector<Dim>& dims) {
  std::vector<int64_t> values;
  for (const Dim& dim : dims) {
    if (dim.is_constant()) values.push_back(*dim.constant());
  }
  if (values.size() == dims.size()) return integers(values);
  return (*this)(ops::dims, {}, {{"values", dims}});
}

Value* Builder::reshape(Value* x, const std::vector<Dim>& dims) {
  if (x->type().is_ranked() && *x->type().dims == dims) return x;
  return (*this)(ops::reshape, {x, this->dims(dims)}, {{"allow_zero", true}});
}

Value* Builder::expand(Value* x, const std::vector<Dim>& dims) {
  if (x->type().is_ranked() && *x->type().dims == dims) return x;
  return (*this)(ops::expand, {x, this->dims(dims)});
}

Value* Builder::transpose(Value* x, const std::vector<int64_t>& permutation) {
  return (*this)(ops::transpose, {x}, {{"permutation", permutation}});
}

Value* Builder::cast(Value* x, ElementType to) {
  if (x->type().element == to) return x;
  return (*this)(ops::cast, {x}, {{"to", to}});
}

bool Expansion::has(int i) const { return i < count() && operand(i) != nullptr; }

namespace {

template <class T>
const T& get(const Instruction& instruction, std::string_view name) {
  const Attribute* value = find_attribute(instruction.attributes(), name);
  check(value != nullptr && std::holds_alternative<T>(*value), ErrorKind::internal,
        "{} has no attribute '{}' of the requested kind", instruction.op().name, name);
  return std::get<T>(*value);
}

}  // namespace

bool Expansion::has_attribute(std::string_view name) const {
  return find_attribute(instruction_.attributes(), name) != nullptr;
}
int64_t Expansion::integer(std::string_view name) const { return get<int64_t>(instruction_, name); }
double Expansion::number(std::string_view name) const { return get<double>(instruction_, name); }
bool Expansion::boolean(std::string_view name) const { return get<bool>(instruction_, name); }
const std::string& Expansion::text(std::string_view name) const {
  return get<std::string>(instruction_, name);
}
ElementType Expansion::element_type(std::string_view name) const {
  return get<ElementType>(instruction_, name);
}
const Integers& Expansion::integers(std::string_view name) const {
  return get<Integers>(instruction_, name);
}

int Expansion::axis(std::string_view attribute, int rank) const {
  const int64_t value = integer(attribute);
  return static_cast<int>(value < 0 ? value + rank : value);
}

namespace {

// An expansion may name a dim differently; the result keeps the instruction's own dims.
Value* refine(Builder& builder, const Instruction& instruction, Value* value,
              const Type& expected) {
  const Type& have = value->type();
  check(have.is_ranked() && expected.is_ranked() && have.element == expected.element &&
            have.rank() == expected.rank(),
        ErrorKind::internal, "the expansion of {} has type {}, expected {}", instruction.op().name,
        have.to_string(), expected.to_string());
  Instruction* refined = builder.module().insert(ops::refine, {value}, {{"dims", *expected.dims}},
                                                 {}, 1, builder.before());
  refined->set_origins(instruction.origins());
  for (const Dim& dim : *expected.dims) {
    const SymbolRef symbol = dim.as_symbol();
    for (const SymbolRef& own : instruction.found()) {
      if (symbol != nullptr && own->name == symbol->name) refined->add_found(own);
    }
  }
  infer(*refined);
  return refined->result();
}

}  // namespace

std::vector<Value*> inline_body(Builder& b, const Module& body,
                                const std::vector<Value*>& arguments) {
  std::map<const Value*, Value*> copies;
  for (size_t i = 0; i < body.parameters().size(); ++i) {
    copies[body.parameters()[i].get()] = arguments[i];
  }
  const std::vector<Origin> outer = b.origins();
  for (const auto& instruction : body.instructions()) {
    check(instruction->bodies().empty(), ErrorKind::internal, "{} in an inlined body has bodies",
          instruction->op().name);
    std::vector<Value*> operands;
    for (const Value* operand : instruction->operands()) {
      operands.push_back(operand == nullptr ? nullptr : copies.at(operand));
    }
    b.set_origins(instruction->origins());
    Instruction* copy =
        b.add(instruction->op(), std::move(operands), instruction->attributes(), {},
              static_cast<int>(instruction->results().size()), instruction->result()->name());
    for (size_t i = 0; i < instruction->results().size(); ++i) {
      copies[instruction->result(static_cast<int>(i))] = copy->result(static_cast<int>(i));
    }
  }
  b.set_origins(outer);
  std::vector<Value*> results;
  for (const Value* result : body.results()) results.push_back(copies.at(result));
  return results;
}

void expand_instruction(Instruction* instruction) {
  Module& module = *instruction->module();
  Builder builder(module, instruction);
  builder.set_origins(instruction->origins());
  Expansion expansion(*instruction, builder);
  instruction->op().expand(expansion);
  check(expansion.results().size() == instruction->results().size(), ErrorKind::internal,
        "the expansion of {} has {} results, expected {}", instruction->op().name,
        expansion.results().size(), instruction->results().size());
  for (size_t i = 0; i < expansion.results().size(); ++i) {
    Value* old = instruction->result(static_cast<int>(i));
    Value* fresh = expansion.results()[i];
    if (fresh == nullptr) {  // absent: allowed for an unused result
      check(old->uses().empty(), ErrorKind::internal,
            "the expansion of {} lacks result {}, which is used", instruction->op().name, i);
      continue;
    }
    if (!(fresh->type() == old->type())) fresh = refine(builder, *instruction, fresh, old->type());
    module.replace_uses(old, fresh);
  }
  module.erase(instruction);
}

}  // namespace lathe
