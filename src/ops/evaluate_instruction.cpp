// SPDX-License-Identifier: MIT
// Evaluates one instruction on the host, apart from any plan: for constant folding and tests.
#include <map>

#include "ir/builder.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

// Symbols defined so far in this evaluation, by name.
using Bindings = std::map<std::string, int64_t, std::less<>>;

class HostEvaluation final : public Evaluation {
 public:
  HostEvaluation(const Instruction& instruction, const std::map<const Value*, Box>& values,
                 Bindings& bindings, ThreadPool* threads)
      : bindings_(bindings) {
    instruction_ = &instruction;
    pool = threads;
    static const Box absent;
    for (const Value* operand : instruction.operands()) {
      const Box& box = operand == nullptr ? absent : values.at(operand);
      boxes_.push_back(&box);
      inputs_.push_back(box.is_tensor() ? box.tensor().view() : TensorView{});
    }
    results_.resize(instruction.results().size());
    outputs_.resize(results_.size());
    for (size_t i = 0; i < results_.size(); ++i) prepare_result(i);
  }

  using Evaluation::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override {
    const auto at = static_cast<size_t>(i);
    if (results_[at].empty()) {
      allocate(at, Dims(dims.begin(), dims.end()));
    } else {
      const Dims& known = results_[at].tensor().dims();
      check(std::equal(known.begin(), known.end(), dims.begin(), dims.end()),
            "result {} has extents {}, inference promised {}", i, fmt::join(dims, "x"),
            fmt::join(known, "x"));
    }
    return outputs_[at];
  }
  const Box& box(int i) const override { return *boxes_[static_cast<size_t>(i)]; }
  void set_box(int i, Box box) override { results_[static_cast<size_t>(i)] = std::move(box); }

  // The results, with the symbols that they define bound.
  std::vector<Box> finish() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const Type& type = instruction_->result(static_cast<int>(i))->type();
      if (!type.is_ranked() || !results_[i].is_tensor()) continue;
      for (size_t axis = 0; axis < type.dims->size(); ++axis) {
        const SymbolRef symbol = (*type.dims)[axis].as_symbol();
        if (symbol != nullptr) bindings_.emplace(symbol->name, results_[i].tensor().dims()[axis]);
      }
    }
    return std::move(results_);
  }

 private:
  void prepare_result(size_t i) {
    const Type& type = instruction_->result(static_cast<int>(i))->type();
    if (!type.is_ranked()) return;
    Dims dims;
    for (const Dim& dim : *type.dims) {
      const std::optional<int64_t> value = dim.evaluate([&](const Symbol& symbol) {
        const auto at = bindings_.find(symbol.name);
        return at == bindings_.end() ? std::nullopt : std::optional<int64_t>(at->second);
      });
      if (!value) return;  // found: the evaluation says
      dims.push_back(*value);
    }
    allocate(i, std::move(dims));
  }

  void allocate(size_t i, Dims dims) {
    const Type& type = instruction_->result(static_cast<int>(i))->type();
    results_[i] = Box{Tensor(type.element, std::move(dims))};
    outputs_[i] = results_[i].tensor().view();
  }

  std::vector<const Box*> boxes_;
  std::vector<Box> results_;
  Bindings& bindings_;
};

Type type_of(const Box& box) {
  if (box.is_tensor()) {
    return Type::tensor(box.tensor().type(),
                        {box.tensor().dims().begin(), box.tensor().dims().end()});
  }
  if (box.is_sequence() && !box.sequence().empty()) {
    const Type item = type_of(box.sequence().front());
    return Type::sequence(item.is_tensor() ? Type::unranked(item.element) : item);
  }
  return Type::sequence(Type::unranked(ElementType::f32));
}

void expand_composites(Module& module) {
  for (bool again = true; again;) {
    again = false;
    for (auto at = module.instructions().begin(); at != module.instructions().end();) {
      Instruction* instruction = (at++)->get();
      if (instruction->op().expand == nullptr) continue;
      expand_instruction(instruction);
      again = true;
    }
  }
}

}  // namespace

std::vector<Box> evaluate_instruction(const Instruction& instruction,
                                      const std::vector<Box>& operands, ThreadPool* pool) {
  check(instruction.bodies().empty(), ErrorKind::unsupported,
        "{} has bodies and cannot be evaluated apart from a plan", instruction.op().name);
  // A program of its own, in which every extent and small value is known.
  Program program;
  Module& module = program.main();
  Builder builder(module);
  std::map<const Value*, Box> values;
  std::vector<Value*> arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (instruction.operands()[i] == nullptr) {
      arguments.push_back(nullptr);
      continue;
    }
    const Type& declared = instruction.operands()[i]->type();
    arguments.push_back(
        operands[i].is_tensor() && declared.is_tensor()
            ? builder.literal(operands[i].tensor())
            : module.add_parameter(declared.is_tensor() ? type_of(operands[i]) : declared, ""));
    values[arguments.back()] = operands[i];
  }
  builder.set_origins(instruction.origins());
  Instruction* root = builder.add(instruction.op().name, arguments, instruction.attributes(), {},
                                  static_cast<int>(instruction.results().size()));
  std::vector<Value*> results;
  for (size_t i = 0; i < root->results().size(); ++i) {
    results.push_back(root->result(static_cast<int>(i)));
  }
  module.set_results(results, std::vector<std::string>(results.size()));
  expand_composites(module);

  Bindings bindings;
  for (const auto& step : module.instructions()) {
    if (step->op().structural == Structural::literal) {
      values[step->result()] = Box{step->literal()->tensor};
      continue;
    }
    if (step->op().structural == Structural::dims) {
      const auto& dims = std::get<std::vector<Dim>>(*find_attribute(step->attributes(), "values"));
      Tensor tensor(ElementType::i64, {static_cast<int64_t>(dims.size())});
      for (size_t i = 0; i < dims.size(); ++i) {
        const auto value = dims[i].evaluate([&](const Symbol& symbol) {
          const auto at = bindings.find(symbol.name);
          return at == bindings.end() ? std::nullopt : std::optional<int64_t>(at->second);
        });
        check(value.has_value(), ErrorKind::internal, "dim {} is not known here",
              dims[i].to_string());
        tensor.as<int64_t>()[i] = *value;
      }
      values[step->result()] = Box{std::move(tensor)};
      continue;
    }
    check(step->op().structural == Structural::none, ErrorKind::unsupported,
          "{} cannot be evaluated apart from a plan: it expands into {}", instruction.op().name,
          step->op().name);
    HostEvaluation evaluation(*step, values, bindings, pool);
    PreparedEvaluation(*step).run(evaluation);
    std::vector<Box> produced = evaluation.finish();
    for (size_t i = 0; i < produced.size(); ++i) {
      values[step->result(static_cast<int>(i))] = std::move(produced[i]);
    }
  }
  std::vector<Box> out;
  for (const Value* result : module.results()) out.push_back(values.at(result));
  return out;
}

}  // namespace lathe
