// SPDX-License-Identifier: MIT
#include "targets/pack_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/compiled_source.h"
#include "ir/infer.h"
#include "ir/ops.h"
#include "ops/evaluation.h"
#include "passes/eliminate_dead_code.h"
#include "plan/packing_observer.h"
#include "plan/packing_source.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

bool is_packed(const Instruction& instruction) {
  return instruction.literal() != nullptr && !instruction.operands().empty();
}

bool has_packings(const Program& program) {
  return std::ranges::any_of(program.modules(), [](const auto& module) {
    return std::ranges::any_of(module->instructions(),
                               [](const auto& each) { return is_packed(*each); });
  });
}

// The data, type and dims of a source; null: absent.
using Source = std::pair<const void*, std::string>;

Source source_of(const Tensor* tensor) {
  if (tensor == nullptr) return {};
  return {tensor->data(), to_string(tensor->type(), tensor->dims())};
}

struct Packing {
  std::string format;
  std::vector<Source> sources;
  std::shared_ptr<const void> owner;
  const void* data = nullptr;
  size_t bytes = 0;

  friend bool operator==(const Packing& a, const Packing& b) {
    return a.format == b.format && a.sources == b.sources;
  }
};

// The packings that the plan of a program uses.
std::vector<Packing> packings_of(const Program& program, CompileOptions options) {
  options.passes = PassOptions{};
  options.watch_kernels = nullptr;
  std::vector<Packing> found;
  const PackingObserver observer([&](const ObservedPacking& each) {
    Packing packing{each.id, {}, each.owner, each.data, each.bytes};
    for (const Tensor* source : each.sources) packing.sources.push_back(source_of(source));
    if (std::ranges::find(found, packing) == found.end()) found.push_back(std::move(packing));
  });
  compile(program.clone(), options);
  return found;
}

bool only_moves(const Instruction& instruction) {
  return instruction.deferred() &&
         is_any_of(instruction.op(), {&ops::cast, &ops::transpose, &ops::concat});
}

// Constants of 16 bits, or, unless they are joined, of f32.
bool comes_from_constants(const Instruction& instruction, bool joined = false) {
  if (!only_moves(instruction)) return false;
  joined |= instruction.op() == ops::concat;
  return std::ranges::all_of(instruction.operands(), [&](const Value* operand) {
    const Instruction* made = operand->definition();
    if (made == nullptr) return false;
    if (made->literal() == nullptr) return comes_from_constants(*made, joined);
    const ElementType type = made->literal()->tensor.type();
    const bool halves = type == ElementType::bf16 || type == ElementType::f16;
    return !made->literal()->bindable && (halves || (type == ElementType::f32 && !joined));
  });
}

bool goes_to_products(const Value& value) {
  return std::ranges::all_of(value.uses(), [&](const Use& use) {
    if (use.user == nullptr) return false;
    if (only_moves(*use.user)) return goes_to_products(*use.user->result());
    if (use.user->op() == ops::region) {
      const auto& parameters = use.user->bodies()[0]->parameters();
      return goes_to_products(*parameters[static_cast<size_t>(use.index)]);
    }
    // The matrices of experts.
    if (use.user->op() == ops::moe) return use.index == 2 || use.index == 4 || use.index == 6;
    const bool multiplies = use.user->op() == ops::matmul || use.user->op() == ops::gemm;
    return multiplies && use.index == 1 && value.type().element == ElementType::f32;
  });
}

// Such constants under products in f32 and experts stay as they are, joined or not: kernels hold
// them so.
bool keeps_constants(const Instruction& instruction) {
  return instruction.target() != "gpu" && comes_from_constants(instruction) &&
         goes_to_products(*instruction.result());
}

// Kernels get the elements of literals where they lie.
void align_literals(Program& program) {
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal == nullptr || literal->bindable) continue;
      Tensor own = literal->tensor.aligned().dense();
      if (own.data() == literal->tensor.data()) continue;
      auto aligned = std::make_shared<Literal>();
      aligned->tensor = std::move(own);
      instruction->set_literal(std::move(aligned));
    }
  }
}

// Appends packings to a module that has their sources.
void add_packings(Module& module, const std::vector<Packing>& packings) {
  std::map<Source, Instruction*> literals;
  for (const auto& each : module.instructions()) {
    if (each->literal() != nullptr) {
      literals.emplace(source_of(&each->literal()->tensor), each.get());
    }
  }
  for (const Packing& packing : packings) {
    std::vector<Value*> sources;
    std::vector<uint64_t> hashes;
    std::vector<int64_t> absent;
    bool all = true;
    for (size_t i = 0; i < packing.sources.size() && all; ++i) {
      if (packing.sources[i].first == nullptr) {
        absent.push_back(static_cast<int64_t>(i));
        continue;
      }
      const auto source = literals.find(packing.sources[i]);
      all = source != literals.end();
      if (!all) continue;
      sources.push_back(source->second->result());
      hashes.push_back(source->second->literal()->hash());
    }
    if (!all || sources.empty()) continue;
    auto packed = std::make_shared<Literal>();
    packed->tensor =
        Tensor(ElementType::u8, {static_cast<int64_t>(packing.bytes)}, {1},
               const_cast<void*>(packing.data), std::const_pointer_cast<void>(packing.owner));
    Attributes attributes{{"format", packing.format}, {"hashes", hashes_text(hashes)}};
    if (!absent.empty()) attributes.emplace_back("absent", absent);
    Instruction* added =
        module.insert(ops::literal, std::move(sources), std::move(attributes), {}, 1);
    added->set_literal(std::move(packed));
    infer(*added);
  }
}

}  // namespace

void evaluate_deferred(Program& program) {
  for (const auto& module : program.modules()) {
    for (auto at = module->instructions().begin(); at != module->instructions().end();) {
      Instruction& instruction = **at++;
      if (!instruction.deferred() || keeps_constants(instruction)) continue;
      std::vector<Box> operands;
      for (const Value* operand : instruction.operands()) {
        operands.push_back(operand == nullptr ? Box{}
                                              : Box{operand->definition()->literal()->tensor});
        if (operand != nullptr) restore_stored(operands.back().tensor());
      }
      const std::vector<Box> results = evaluate_instruction(instruction, operands);
      Builder builder(*module, &instruction);
      builder.set_origins(instruction.origins());
      for (size_t i = 0; i < results.size(); ++i) {
        Value* result = instruction.result(static_cast<int>(i));
        if (result->uses().empty()) continue;
        Value* literal = builder.literal(results[i].tensor());
        literal->set_layout(result->layout());
        literal->definition()->set_target(instruction.target());
        module->replace_uses(result, literal);
      }
      module->erase(&instruction);
    }
  }
  eliminate_dead_code.run(program);
}

void add_packings(Program& program, const CompileOptions& options) {
  const auto* packing = dynamic_cast<const PackingSource*>(options.target.get());
  if (program.stage != Stage::lowered || packing == nullptr || has_packings(program) ||
      compiled_source(program) != nullptr) {
    return;
  }
  evaluate_deferred(program);
  align_literals(program);
  const std::vector<Packing> packings = packings_of(program, options);
  for (const auto& module : program.modules()) add_packings(*module, packings);
}

void take_packings(Program& program, GivenPackings& given) {
  for (const auto& module : program.modules()) {
    for (auto at = module->instructions().begin(); at != module->instructions().end();) {
      Instruction& instruction = **at++;
      if (!is_packed(instruction)) continue;
      const Attribute* list = find_attribute(instruction.attributes(), "absent");
      std::set<int64_t> absent;
      if (list != nullptr) {
        const auto& places = std::get<std::vector<int64_t>>(*list);
        absent.insert(places.begin(), places.end());
      }
      const auto is_absent = [&](size_t i) { return absent.contains(static_cast<int64_t>(i)); };
      std::vector<const Tensor*> sources;
      bool all = true;
      for (const Value* operand : instruction.operands()) {
        while (is_absent(sources.size())) sources.push_back(nullptr);
        const Instruction* source = operand->definition();
        all = all && source != nullptr && source->literal() != nullptr;
        sources.push_back(all ? &source->literal()->tensor : nullptr);
      }
      while (is_absent(sources.size())) sources.push_back(nullptr);
      if (all) {
        const Tensor& packed = instruction.literal()->tensor;
        restore_stored(packed);
        const auto text = [&](std::string_view name) {
          return std::get<std::string>(*find_attribute(instruction.attributes(), name));
        };
        given.add(text("format"), sources, text("hashes"), packed);
      }
      if (instruction.result()->uses().empty()) module->erase(&instruction);
    }
  }
}

}  // namespace lathe
