// SPDX-License-Identifier: MIT
// Evaluates one instruction on the host without a plan, for constant folding and tests.
#include <map>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

// Symbols bound in this evaluation, by name.
using Bindings = std::map<std::string, int64_t, std::less<>>;

class HostEvaluation final : public StoredEvaluation {
 public:
  HostEvaluation(const Instruction& instruction, const std::map<const Value*, Box>& values,
                 Bindings& bindings, ThreadPool* threads)
      : StoredEvaluation(instruction), bindings_(bindings) {
    pool = threads;
    static const Box absent;
    for (const Value* operand : instruction.operands()) {
      const Box& box = operand == nullptr ? absent : values.at(operand);
      if (box.is_tensor()) operand_views_[boxes_.size()] = box.tensor().view();
      boxes_.push_back(&box);
    }
    results_.resize(instruction.results().size());
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
            "result {} has shape {}, inferred {}", i, fmt::join(dims, "x"), fmt::join(known, "x"));
    }
    return result_views_[at];
  }
  const Box& box(int i) const override { return *boxes_[static_cast<size_t>(i)]; }
  void set_box(int i, Box box) override { results_[static_cast<size_t>(i)] = std::move(box); }

  // Returns the results and binds the symbols that they define.
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
      if (!value) return;  // data-dependent: the evaluation sets it
      dims.push_back(*value);
    }
    allocate(i, std::move(dims));
  }

  void allocate(size_t i, Dims dims) {
    const Type& type = instruction_->result(static_cast<int>(i))->type();
    results_[i] = Box{Tensor(type.element, std::move(dims))};
    result_views_[i] = results_[i].tensor().view();
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

using Values = std::map<const Value*, Box>;

// Runs a module of static shapes, scans included.
class Interpreter {
 public:
  Interpreter(const Instruction& root, ThreadPool* pool) : root_(root), pool_(pool) {}

  std::vector<Box> run(const Module& module, Values values, Bindings bindings) const {
    for (const auto& step : module.instructions()) {
      std::vector<Box> produced = evaluate(*step, values, bindings);
      for (size_t i = 0; i < produced.size(); ++i) {
        values[step->result(static_cast<int>(i))] = std::move(produced[i]);
      }
    }
    std::vector<Box> out;
    for (const Value* result : module.results()) out.push_back(values.at(result));
    return out;
  }

 private:
  std::vector<Box> evaluate(const Instruction& step, const Values& values,
                            Bindings& bindings) const {
    switch (step.op().structural) {
      case Structural::literal:
        return {Box{step.literal()->tensor.aligned()}};
      case Structural::dims:
        return {Box{dims_tensor(step, bindings)}};
      case Structural::scan:
        return scan(step, values, bindings);
      case Structural::none: {
        HostEvaluation evaluation(step, values, bindings, pool_);
        PreparedEvaluation(step).run(evaluation);
        return evaluation.finish();
      }
      default:
        fail(ErrorKind::unsupported, "{} cannot be evaluated without a plan: it expands into {}",
             root_.op().name, step.op().name);
    }
  }

  static int64_t value_of(const Dim& dim, const Bindings& bindings) {
    const auto value = dim.evaluate([&](const Symbol& symbol) {
      const auto at = bindings.find(symbol.name);
      return at == bindings.end() ? std::nullopt : std::optional<int64_t>(at->second);
    });
    check(value.has_value(), ErrorKind::internal, "dim {} is unbound", dim.to_string());
    return *value;
  }

  static Tensor dims_tensor(const Instruction& step, const Bindings& bindings) {
    const auto& dims = std::get<std::vector<Dim>>(*find_attribute(step.attributes(), "values"));
    Tensor tensor(ElementType::i64, {static_cast<int64_t>(dims.size())});
    for (size_t i = 0; i < dims.size(); ++i) {
      tensor.as<int64_t>()[i] = value_of(dims[i], bindings);
    }
    return tensor;
  }

  // Slice `position` of an axis, as a view.
  static Tensor entry(const Tensor& tensor, int64_t axis, int64_t position) {
    if (axis < 0) axis += tensor.rank();
    Dims dims = tensor.dims();
    Dims strides = tensor.strides();
    auto* data = static_cast<std::byte*>(tensor.data()) +
                 position * strides[static_cast<size_t>(axis)] * info(tensor.type()).bits / 8;
    dims.erase(dims.begin() + axis);
    strides.erase(strides.begin() + axis);
    return Tensor(tensor.type(), dims, strides, data, tensor.owner());
  }

  std::vector<Box> scan(const Instruction& step, const Values& values,
                        const Bindings& bindings) const {
    const auto integer = [&](std::string_view name) {
      return static_cast<size_t>(std::get<int64_t>(*find_attribute(step.attributes(), name)));
    };
    const auto listed = [&](std::string_view name, size_t i) {
      const auto& list = std::get<Integers>(*find_attribute(step.attributes(), name));
      return list.empty() ? 0 : list.at(i);
    };
    const Module& body = *step.bodies()[0];
    const size_t carried = integer("carried");
    const size_t scanned = integer("scanned");
    std::vector<Box> arguments;
    for (const Value* operand : step.operands()) arguments.push_back(values.at(operand));
    const std::vector<Box> inputs(
        arguments.begin() + static_cast<std::ptrdiff_t>(carried),
        arguments.begin() + static_cast<std::ptrdiff_t>(carried + scanned));
    std::vector<Box> outputs;
    for (size_t i = carried; i < step.results().size(); ++i) {
      const Type& type = step.result(static_cast<int>(i))->type();
      check(type.is_ranked(), ErrorKind::unsupported, "scan: result {} is {}", i, type.to_string());
      Dims dims;
      for (const Dim& dim : *type.dims) dims.push_back(value_of(dim, bindings));
      outputs.push_back(Box{Tensor(type.element, dims)});
    }
    const Tensor& first = inputs.at(0).tensor();
    const int64_t axis = listed("input_axes", 0);
    const int64_t trips = first.dims()[static_cast<size_t>(axis < 0 ? axis + first.rank() : axis)];
    const auto at = [&](std::string_view directions, size_t i, int64_t trip) {
      return listed(directions, i) == 1 ? trips - 1 - trip : trip;
    };
    for (int64_t trip = 0; trip < trips; ++trip) {
      for (size_t i = 0; i < scanned; ++i) {
        arguments[carried + i] = Box{
            entry(inputs[i].tensor(), listed("input_axes", i), at("input_directions", i, trip))};
      }
      Values inner;
      for (size_t i = 0; i < arguments.size(); ++i)
        inner[body.parameters()[i].get()] = arguments[i];
      std::vector<Box> results = run(body, std::move(inner), bindings);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Tensor slice =
            entry(outputs[i].tensor(), listed("output_axes", i), at("output_directions", i, trip));
        copy_elements(results[carried + i].tensor().view(), slice.view());
      }
      std::move(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carried),
                arguments.begin());
    }
    std::vector<Box> all(arguments.begin(),
                         arguments.begin() + static_cast<std::ptrdiff_t>(carried));
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }

  const Instruction& root_;
  ThreadPool* pool_;
};

}  // namespace

std::vector<Box> evaluate_instruction(const Instruction& instruction,
                                      const std::vector<Box>& operands, ThreadPool* pool) {
  const bool is_region = instruction.op() == ops::region;
  check(is_region || instruction.bodies().empty(), ErrorKind::unsupported,
        "{} has bodies and cannot be evaluated without a plan", instruction.op().name);
  // Builds a program of one instruction with constant shapes and small values.
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
    // Literals of mapped files may be unaligned.
    const Box operand = operands[i].is_tensor() ? Box{operands[i].tensor().aligned()} : operands[i];
    arguments.push_back(
        operand.is_tensor() && declared.is_tensor()
            ? builder.literal(operand.tensor())
            : module.add_parameter(declared.is_tensor() ? type_of(operand) : declared, ""));
    values[arguments.back()] = operand;
  }
  builder.set_origins(instruction.origins());
  std::vector<Value*> results;
  if (is_region) {
    results = inline_body(builder, *instruction.bodies()[0], arguments);
  } else {
    Instruction* root = builder.add(instruction.op(), arguments, instruction.attributes(), {},
                                    static_cast<int>(instruction.results().size()));
    for (size_t i = 0; i < root->results().size(); ++i) {
      results.push_back(root->result(static_cast<int>(i)));
    }
  }
  module.set_results(results, std::vector<std::string>(results.size()));
  // By index: an expansion may add bodies to the list.
  for (size_t i = 0; i < program.modules().size(); ++i) expand_composites(*program.modules()[i]);
  return Interpreter(instruction, pool).run(module, std::move(values), {});
}

}  // namespace lathe
