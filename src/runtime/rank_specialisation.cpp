// SPDX-License-Identifier: MIT
// Instructions with operands of unknown rank, compiled on first use of each combination of ranks.
#include "ir/builder.h"
#include "runtime/control_flow.h"
#include "runtime/session.h"

namespace lathe {
namespace {

// The actual type of an operand: declared constant sizes, symbols for other axes.
Type current_type(Program& program, const Type& declared, const Argument& value) {
  if (!declared.is_tensor()) return declared;
  const TensorView view = value.box != nullptr ? value.box->tensor().view() : value.view;
  std::vector<Dim> dims;
  for (int axis = 0; axis < view.rank; ++axis) {
    const bool constant =
        declared.is_ranked() && (*declared.dims)[static_cast<size_t>(axis)].is_constant();
    dims.push_back(constant
                       ? (*declared.dims)[static_cast<size_t>(axis)]
                       : Dim(program.add_symbol("extent", SymbolKind::bound, {0, kUnbounded})));
  }
  return Type::tensor(view.type, std::move(dims));
}

// Literals remain literals, for inference on their values and packing; so do the values of deferred
// instructions. Other operands become inputs.
bool is_literal(const Value& operand) {
  return operand.definition() != nullptr && operand.definition()->literal() != nullptr;
}
bool is_deferred(const Value& operand) {
  return operand.definition() != nullptr && operand.definition()->deferred();
}

// The plan owns deferred values, but may be freed before the plans of other ranks.
Tensor copy_of(const Argument& value) {
  const TensorView view = value.box != nullptr ? value.box->tensor().view() : value.view;
  Tensor copy(view.type, Dims(view.extents().begin(), view.extents().end()));
  copy_elements(view, copy.view());
  return copy;
}

std::string rank_key(const std::vector<Argument>& arguments) {
  std::string key;
  for (const Argument& argument : arguments) {
    const bool tensor = argument.box == nullptr || argument.box->is_tensor();
    const int rank = !tensor                   ? -1
                     : argument.box != nullptr ? argument.box->tensor().rank()
                                               : argument.view.rank;
    key += fmt::format("{} ", rank);
  }
  return key;
}

// A program of one instruction, with its operands as inputs.
std::unique_ptr<Program> program_of(const Launch& launch, const std::vector<Argument>& arguments) {
  const Instruction& instruction = *launch.instruction;
  auto program = std::make_unique<Program>();
  program->name = instruction.module()->program().name;
  Module& main = program->main();
  std::vector<Value*> operands;
  size_t next = 0;
  Builder builder(main);
  builder.set_origins(instruction.origins());
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
    } else if (is_literal(*operand)) {
      operands.push_back(builder.literal(operand->definition()->literal()));
    } else if (is_deferred(*operand)) {
      operands.push_back(builder.literal(copy_of(arguments[next++])));
    } else {
      const Type type = current_type(*program, operand->type(), arguments[next++]);
      operands.push_back(main.add_parameter(type, ""));
    }
  }
  Instruction* copy =
      builder.add(instruction.op().name, std::move(operands), instruction.attributes(), {},
                  static_cast<int>(instruction.results().size()));
  std::vector<Value*> results;
  for (size_t i = 0; i < copy->results().size(); ++i) {
    results.push_back(copy->result(static_cast<int>(i)));
  }
  main.set_results(results, std::vector<std::string>(results.size()));
  return program;
}

// Assigns the box of another plan's result to a result of the launch.
void deliver(Frame& frame, SlotId id, const Box& box) {
  frame.box(id) = box;
  frame.view(id) = box.is_tensor() ? box.tensor().view() : TensorView{};
}

}  // namespace

void run_rank_specialised(Frame& frame, const Launch& launch) {
  RunContext& run_context = frame.run_context();
  std::vector<Argument> arguments;
  for (size_t i = 0; i < launch.operands.size(); ++i) {
    const Value* operand = launch.instruction->operands()[i];
    if (operand == nullptr || is_literal(*operand)) continue;
    arguments.push_back(frame.argument(launch.operands[i]));
  }
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard lock(launch.late->mutex);
    std::shared_ptr<const Plan>& known = launch.late->plans[rank_key(arguments)];
    if (known == nullptr) {
      known = frame.plan().compile(program_of(launch, arguments));
      ++run_context.counters.late_compilations;
    }
    plan = known;
  }
  std::vector<Box> inputs;
  size_t next = 0;
  for (const Value* operand : launch.instruction->operands()) {
    if (operand == nullptr || is_literal(*operand)) continue;
    const Argument& argument = arguments[next++];
    if (is_deferred(*operand)) continue;
    if (argument.box != nullptr) {
      inputs.push_back(*argument.box);
      continue;
    }
    const auto extents = argument.view.extents();
    inputs.push_back(Box{Tensor(
        argument.view.type, Dims(extents.begin(), extents.end()),
        Dims(argument.view.strides.begin(), argument.view.strides.begin() + argument.view.rank),
        argument.view.data, nullptr)});
  }
  Session session(plan, SessionOptions{.budget = run_context.budget, .pool = run_context.pool});
  RunOptions options;
  options.cancel = run_context.cancel;
  options.deadline = run_context.deadline;
  const std::vector<Box> results = session.run(inputs, options);
  for (size_t i = 0; i < results.size(); ++i) deliver(frame, launch.results[i], results[i]);
}

}  // namespace lathe
