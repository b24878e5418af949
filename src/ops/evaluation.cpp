// SPDX-License-Identifier: MIT
#include "ops/evaluation.h"

#include "ops/interpret.h"
#include "ops/support/indices.h"

namespace lathe {
namespace {

template <class T>
const T& get(const Instruction& instruction, std::string_view name) {
  const Attribute* value = find_attribute(instruction.attributes(), name);
  check(value != nullptr && std::holds_alternative<T>(*value), ErrorKind::internal,
        "{} has no attribute '{}' of the requested kind", instruction.op().name, name);
  return std::get<T>(*value);
}

// Attributes of an instruction for its formula.
struct InstructionAttributes final : FormulaAttributes {
  explicit InstructionAttributes(const Instruction& i) : instruction(i) {}
  double number(std::string_view name) const override { return get<double>(instruction, name); }
  int64_t integer(std::string_view name) const override {
    const Attribute* value = find_attribute(instruction.attributes(), name);
    if (value != nullptr && kind_of(*value) == AttributeKind::boolean) {
      return std::get<bool>(*value) ? 1 : 0;
    }
    return get<int64_t>(instruction, name);
  }
  std::string_view text(std::string_view name) const override {
    return get<std::string>(instruction, name);
  }
  const Instruction& instruction;
};

}  // namespace

bool Evaluation::has_attribute(std::string_view name) const {
  return find_attribute(instruction_->attributes(), name) != nullptr;
}
int64_t Evaluation::integer(std::string_view name) const {
  return get<int64_t>(*instruction_, name);
}
double Evaluation::number(std::string_view name) const { return get<double>(*instruction_, name); }
bool Evaluation::boolean(std::string_view name) const { return get<bool>(*instruction_, name); }
const std::string& Evaluation::text(std::string_view name) const {
  return get<std::string>(*instruction_, name);
}
ElementType Evaluation::element_type(std::string_view name) const {
  return get<ElementType>(*instruction_, name);
}
const Integers& Evaluation::integers(std::string_view name) const {
  return get<Integers>(*instruction_, name);
}
const Numbers& Evaluation::numbers(std::string_view name) const {
  return get<Numbers>(*instruction_, name);
}
const Texts& Evaluation::texts(std::string_view name) const {
  return get<Texts>(*instruction_, name);
}

int Evaluation::axis(std::string_view attribute, int rank) const {
  const int64_t value = integer(attribute);
  check(value >= -rank && value < rank, "axis {} is out of range for rank {}", value, rank);
  return static_cast<int>(value < 0 ? value + rank : value);
}

std::vector<int64_t> Evaluation::values(int i) const {
  std::vector<int64_t> values(static_cast<size_t>(in(i).count()));
  load_values(*this, i, 0, values);
  return values;
}

Dims broadcast_extents(const Evaluation& c) {
  Dims dims;
  for (int i = 0; i < c.count(); ++i) {
    const TensorView& x = c.in(i);
    const auto rank = static_cast<size_t>(x.rank);
    if (rank > dims.size()) dims.insert(dims.begin(), rank - dims.size(), 1);
    for (size_t axis = 0; axis < rank; ++axis) {
      int64_t& extent = dims[dims.size() - rank + axis];
      const int64_t own = x.dims[axis];
      c.check(extent == 1 || own == 1 || extent == own, "sizes {} and {} do not broadcast", extent,
              own);
      if (extent == 1) extent = own;
    }
  }
  return dims;
}

void Evaluation::raise(std::string message) const {
  Error error(ErrorKind::invalid_argument,
              fmt::format("{}: {}", instruction_->op().name, std::move(message)));
  for (const Origin& origin : instruction_->origins()) {
    error.note(fmt::format("in {}, node {} ({} '{}')", escape(origin.file), origin.index,
                           escape(origin.op_type), escape(origin.node)));
  }
  throw error;
}

int64_t ViewRequest::integer(std::string_view name) const {
  return get<int64_t>(*instruction, name);
}
const Integers& ViewRequest::integers(std::string_view name) const {
  return get<Integers>(*instruction, name);
}

PreparedEvaluation::PreparedEvaluation(const Instruction& instruction)
    : instruction_(&instruction) {
  const Op& op = instruction.op();
  if (op.formula != nullptr) {
    std::vector<ElementType> elements;
    for (const Value* operand : instruction.operands()) {
      check(operand != nullptr, ErrorKind::internal,
            "{} has a formula and {} operands, of which operand {} is absent", op.name,
            instruction.operands().size(), elements.size());
      elements.push_back(operand->type().element);
    }
    const InstructionAttributes attributes(instruction);
    const ElementType result = instruction.result()->type().element;
    formula_ =
        std::make_unique<const CompiledExpr>(op.formula(Formula(elements, result, attributes)));
    return;
  }
  check(op.eval != nullptr, ErrorKind::internal, "{} has no reference evaluation", op.name);
}

PreparedEvaluation::~PreparedEvaluation() = default;

void PreparedEvaluation::run(Evaluation& c) const {
  if (formula_ == nullptr) {
    instruction_->op().eval(c);
    return;
  }
  std::array<TensorView, 32> few;
  const auto count = static_cast<size_t>(c.count());
  if (count <= few.size()) {
    for (size_t i = 0; i < count; ++i) few[i] = c.in(static_cast<int>(i));
    evaluate_elementwise(*formula_, {few.data(), count}, c.out(0), c.pool);
  } else {
    std::vector<TensorView> many;
    for (size_t i = 0; i < count; ++i) many.push_back(c.in(static_cast<int>(i)));
    evaluate_elementwise(*formula_, many, c.out(0), c.pool);
  }
}

}  // namespace lathe
