// SPDX-License-Identifier: MIT
// Compares stored types, elements and guards with inferred ones.
#include <algorithm>

#include "ir/infer.h"
#include "ir/print.h"
#include "ir/verifier.h"

namespace lathe {
namespace {

std::string elements_text(const std::optional<std::vector<Dim>>& elements) {
  if (!elements) return "unknown";
  std::vector<std::string> texts;
  for (const Dim& dim : *elements) texts.push_back(dim.to_string());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

void Verifier::check_types() {
  for (const auto& module : program_.modules()) {
    for (const auto& instruction : module->instructions()) {
      const size_t before = problems_.size();
      check_record(*instruction);
      if (problems_.size() == before) check_captures(*instruction);
      if (problems_.size() == before) check_inference(*instruction);
      check_deferred(*instruction);
      for (const Value& result : instruction->results()) {
        if (!result.layout().empty() && !is_layout(result.layout(), result.type())) {
          problem("the layout of '%{}' is not an order of its axes: {}", result.name(),
                  place(*instruction));
        }
      }
    }
  }
}

// Checks attributes and bodies against the op's record.
void Verifier::check_record(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (instruction.bodies().size() != op.bodies.size()) {
    problem("got {} bodies, expected {}: {}", instruction.bodies().size(), op.bodies.size(),
            place(instruction));
  }
  for (const auto& [name, value] : instruction.attributes()) {
    const AttributeSpec* spec = op.find_attribute_spec(name);
    if (spec == nullptr) {
      problem("the op has no attribute '{}': {}", escape(name), place(instruction));
    } else if (spec->kind != kind_of(value)) {
      problem("attribute '{}' is {}, expected {}: {}", name, to_string(kind_of(value)),
              to_string(spec->kind), place(instruction));
    }
  }
  for (const AttributeSpec& spec : op.attributes) {
    const bool must_exist = spec.required || spec.has_fallback;
    if (must_exist && find_attribute(instruction.attributes(), spec.name) == nullptr) {
      problem("attribute '{}' is missing: {}", spec.name, place(instruction));
    }
  }
}

// Captured parameters have the type and symbolic values of their operands.
void Verifier::check_captures(const Instruction& instruction) {
  if (instruction.op().capture == nullptr) return;
  for (size_t b = 0; b < instruction.bodies().size(); ++b) {
    const Module& body = *instruction.bodies()[b];
    for (const auto& parameter : body.parameters()) {
      const int operand =
          instruction.op().capture(instruction, static_cast<int>(b), parameter->index());
      if (operand < 0) continue;
      const Value* value = static_cast<size_t>(operand) < instruction.operands().size()
                               ? instruction.operands()[static_cast<size_t>(operand)]
                               : nullptr;
      if (value == nullptr) {
        problem("parameter '%{}' of @{} captures operand {}, which is missing: {}",
                escape(parameter->name()), body.name(), operand, place(instruction));
      } else if (!(parameter->type() == value->type())) {
        problem("parameter '%{}' of @{} is {}, the captured operand {}: {}",
                escape(parameter->name()), body.name(), parameter->type().to_string(),
                value->type().to_string(), place(instruction));
      } else if (parameter->elements() != value->elements()) {
        problem("parameter '%{}' of @{} has elements {}, the captured operand {}: {}",
                escape(parameter->name()), body.name(), elements_text(parameter->elements()),
                elements_text(value->elements()), place(instruction));
      }
    }
  }
}

void Verifier::check_inference(Instruction& instruction) {
  const std::vector<SymbolRef> found = instruction.found();
  try {
    compare_inference(instruction);
  } catch (const Error& error) {
    problem("inference fails: {}: {}", error.message(), place(instruction));
  }
  if (instruction.found().size() == found.size()) return;
  problem("inference defines {} symbols, the instruction {}: {}", instruction.found().size(),
          found.size(), place(instruction));
  // Removes the missing symbols that inference created.
  for (size_t i = found.size(); i < instruction.found().size(); ++i) {
    instruction.module()->program().remove_symbol(instruction.found()[i]->name);
  }
  instruction.clear_found();
  for (const SymbolRef& symbol : found) instruction.add_found(symbol);
}

void Verifier::compare_inference(const Instruction& instruction) {
  const InferRun run(const_cast<Instruction&>(instruction));
  for (const Value& result : instruction.results()) {
    const auto at = static_cast<size_t>(result.index());
    if (!(run.types[at] == result.type())) {
      problem("'%{}' is {}, inferred {}: {}", escape(result.name()), result.type().to_string(),
              run.types[at].to_string(), place(instruction));
    } else if (run.elements[at] != result.elements()) {
      problem("the elements of '%{}' are {}, inferred {}: {}", escape(result.name()),
              elements_text(result.elements()), elements_text(run.elements[at]),
              place(instruction));
    }
  }
  const std::vector<Guard>& guards = instruction.module()->guards();
  for (const Guard& guard : run.guards) {
    if (std::find(guards.begin(), guards.end(), guard) == guards.end()) {
      problem("@{} lacks the condition \"{}\" of {}", instruction.module()->name(), print(guard),
              place(instruction));
    }
  }
}

// A deferred instruction is pure; its operands are literals or deferred.
void Verifier::check_deferred(const Instruction& instruction) {
  if (!instruction.deferred()) return;
  const Op& op = instruction.op();
  if ((op.traits & kImpure) != 0 || op.structural != Structural::none ||
      !instruction.found().empty()) {
    problem("this instruction cannot be deferred: {}", place(instruction));
  }
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) continue;
    const Instruction* definition = operand->definition();
    const bool is_constant =
        definition != nullptr && (definition->deferred() || (definition->literal() != nullptr &&
                                                             !definition->literal()->bindable));
    if (!is_constant) {
      problem("operand '%{}' of a deferred instruction is neither a literal nor deferred: {}",
              escape(operand->name()), place(instruction));
    }
  }
}

}  // namespace lathe
