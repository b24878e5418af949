// SPDX-License-Identifier: MIT
#include "ops/evaluation.h"

#include "ops/interpret.h"

namespace lathe {
namespace {

// Attributes of an instruction for its formula.
struct InstructionAttributes final : FormulaAttributes {
  explicit InstructionAttributes(const Instruction& i) : instruction(i) {}
  double number(std::string_view name) const override {
    return required_attribute<double>(instruction, name);
  }
  int64_t integer(std::string_view name) const override {
    const Attribute* value = find_attribute(instruction.attributes(), name);
    if (value != nullptr && kind_of(*value) == AttributeKind::boolean) {
      return std::get<bool>(*value) ? 1 : 0;
    }
    return required_attribute<int64_t>(instruction, name);
  }
  std::string_view text(std::string_view name) const override {
    return required_attribute<std::string>(instruction, name);
  }
  const Instruction& instruction;
};

}  // namespace

StoredEvaluation::StoredEvaluation(const Instruction& instruction)
    : operand_views_(instruction.operands().size()), result_views_(instruction.results().size()) {
  instruction_ = &instruction;
  for (size_t i = 0; i < operand_views_.size(); ++i) {
    operand_pointers_.push_back(has(static_cast<int>(i)) ? &operand_views_[i] : nullptr);
  }
  for (TensorView& view : result_views_) result_pointers_.push_back(&view);
  inputs_ = operand_pointers_;
  outputs_ = result_pointers_;
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

int64_t ViewRequest::integer(std::string_view name) const {
  return required_attribute<int64_t>(*instruction, name);
}
const Integers& ViewRequest::integers(std::string_view name) const {
  return required_attribute<Integers>(*instruction, name);
}

Expr formula_of(const Instruction& instruction) {
  const Op& op = instruction.op();
  std::vector<ElementType> elements;
  for (const Value* operand : instruction.operands()) {
    check(operand != nullptr, ErrorKind::internal,
          "{} has a formula and {} operands, of which operand {} is absent", op.name,
          instruction.operands().size(), elements.size());
    elements.push_back(operand->type().element);
  }
  const InstructionAttributes attributes(instruction);
  return op.formula(Formula(elements, instruction.result()->type().element, attributes));
}

PreparedEvaluation::PreparedEvaluation(const Instruction& instruction)
    : instruction_(&instruction) {
  const Op& op = instruction.op();
  if (op.formula != nullptr) {
    formula_ = std::make_unique<const CompiledExpr>(formula_of(instruction));
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
