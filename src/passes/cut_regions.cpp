// SPDX-License-Identifier: MIT
#include "passes/cut_regions.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/print.h"
#include "passes/fuse_regions.h"

namespace lathe {
namespace {

using Supports = std::function<std::string(const Instruction&)>;

// A region's steps in their order; the last one is its result.
class Steps {
 public:
  Steps(const Instruction& region, const SymbolSizes& sizes) : region_(region), sizes_(sizes) {
    for (const auto& step : body().instructions()) steps_.push_back(step.get());
  }

  size_t count() const { return steps_.size(); }
  // Where the region may be cut: behind each of these steps.
  std::vector<size_t> cuts() const {
    std::vector<size_t> found;
    const auto consider = [&](size_t at) {
      if (std::ranges::find(found, at) == found.end() && is_cut(at)) found.push_back(at);
    };
    bool plain = true;
    for (size_t i = 0; i < count(); ++i) {
      if (computes_elements(*steps_[i])) continue;
      plain = false;
      for (const Value* operand : steps_[i]->operands()) {
        if (operand != nullptr && operand->definition() != nullptr) consider(at(*operand));
      }
      consider(i);
    }
    if (plain && largest() < count()) found.push_back(largest());
    return found;
  }

  // Whether each step is part of what step `last` depends on, or that step.
  std::vector<bool> first_part(size_t last) const {
    std::vector<bool> first(count());
    first[last] = true;
    for (size_t i = last + 1; i-- > 0;) {
      if (!first[i]) continue;
      for (const Value* operand : steps_[i]->operands()) {
        if (operand != nullptr && operand->definition() != nullptr) first[at(*operand)] = true;
      }
    }
    return first;
  }

  // Equal for equal regions, whatever the names of their values are.
  std::string text() const {
    std::string all;
    for (const auto& parameter : body().parameters()) all += sized(*parameter) + ';';
    for (const Instruction* step : steps_) {
      all += step->op().name;
      for (const auto& [name, value] : step->attributes()) {
        all += fmt::format(" {}={}", name, to_string(value));
      }
      for (const Value* operand : step->operands()) {
        all += operand == nullptr                 ? " -"
               : operand->definition() == nullptr ? fmt::format(" p{}", operand->index())
                                                  : fmt::format(" {}", at(*operand));
      }
      all += sized(*step->result()) + ';';
    }
    return fmt::format("region {} {} {:016x}", op_text(region_), sized(*region_.result()),
                       XXH3_64bits(all.data(), all.size()));
  }
  // That the steps would move as launches of their own; what is not known counts nothing.
  int64_t bytes() const {
    double sum = 0;
    for (const Instruction* step : steps_) {
      sum += bytes_of(*step->result());
      for (const Value* operand : step->operands())
        sum += operand == nullptr ? 0 : bytes_of(*operand);
    }
    constexpr double kMost = int64_t{1} << 62;
    return static_cast<int64_t>(std::min(sum, kMost));
  }
  std::string form(size_t cut) const {
    return fmt::format("cut behind step {}, {}", cut, steps_[cut]->op().name);
  }

 private:
  const Module& body() const { return *region_.bodies()[0]; }
  size_t at(const Value& value) const {
    return static_cast<size_t>(std::ranges::find(steps_, value.definition()) - steps_.begin());
  }

  Type type_of(const Value& value) const {
    Type type = value.type();
    if (!type.is_ranked()) return type;
    for (Dim& dim : *type.dims) {
      const auto size = dim.evaluate([&](const Symbol& symbol) -> std::optional<int64_t> {
        const auto found = sizes_.find(symbol.name);
        return found == sizes_.end() ? std::nullopt : std::optional(found->second);
      });
      if (size) dim = *size;
    }
    return type;
  }
  std::string sized(const Value& value) const { return type_of(value).to_string(); }
  double bytes_of(const Value& value) const {
    const Type type = type_of(value);
    if (!type.is_ranked()) return 0;
    double bytes = info(type.element).bits / 8.0;
    for (const Dim& dim : *type.dims) bytes *= static_cast<double>(dim.constant().value_or(0));
    return bytes;
  }

  static bool computes_elements(const Instruction& step) {
    return is_elementwise(step.op()) ||
           is_any_of(step.op(), {&ops::cast, &ops::quantize_linear, &ops::dequantize_linear});
  }

  // The rest reads of the first part its last value alone, which memory holds as it is.
  bool is_cut(size_t last) const {
    if (last + 1 >= count() || !is_exact(*steps_[last]) || steps_[last]->results().size() > 1) {
      return false;
    }
    const std::vector<bool> first = first_part(last);
    for (size_t i = 0; i < count(); ++i) {
      if (!first[i] || i == last) continue;
      for (const Use& use : steps_[i]->result()->uses()) {
        if (use.user == nullptr || !first[at(*use.user->result())]) return false;
      }
    }
    return true;
  }

  // Registers of narrower floats and integers are wider, and anchors of bytes round once.
  static bool is_exact(const Instruction& step) {
    const ElementType type = step.result()->type().element;
    return step.op() == ops::quantize_linear || type == ElementType::f32 ||
           type == ElementType::f64 || type == ElementType::i64 || type == ElementType::u64 ||
           type == ElementType::boolean;
  }

  // The step with the widest elements, of these the one next to the middle; count(): none.
  size_t largest() const {
    size_t best = count();
    const auto rank = [&](size_t i) {
      const auto middle = static_cast<std::ptrdiff_t>(count() / 2) - 1;
      return std::pair(-info(steps_[i]->result()->type().element).bits,
                       std::abs(static_cast<std::ptrdiff_t>(i) - middle));
    };
    for (size_t i = 0; i + 1 < count(); ++i) {
      if (is_cut(i) && (best == count() || rank(i) < rank(best))) best = i;
    }
    return best;
  }

  const Instruction& region_;
  const SymbolSizes& sizes_;
  std::vector<const Instruction*> steps_;
};

// Regions, or single instructions, of the two parts of steps that are no region any more.
void join(const std::vector<Instruction*>& steps, const std::vector<bool>& first) {
  for (const bool part : {true, false}) {
    std::vector<Instruction*> chain;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (first[i] == part) chain.push_back(steps[i]);
    }
    if (chain.size() > 1) make_region(chain);
  }
}

// Copies of the region's steps before `before`.
std::vector<Instruction*> copy_steps(const Instruction& region, Module& module, Instruction* before,
                                     const std::vector<Value*>& arguments) {
  Builder builder(module, before);
  inline_body(builder, *region.bodies()[0], arguments);
  std::vector<Instruction*> steps;
  auto at = std::ranges::find_if(module.instructions(),
                                 [&](const auto& each) { return each.get() == before; });
  const size_t count = region.bodies()[0]->instructions().size();
  while (steps.size() < count) steps.insert(steps.begin(), std::prev(at--)->get());
  return steps;
}

// True if the target has kernels for both parts: they are made in a program of their own.
bool is_supported(const Instruction& region, const std::vector<bool>& first,
                  const Supports& supports) {
  Program trial;
  Module& main = trial.main();
  Builder builder(main);
  std::vector<Value*> arguments;
  for (const Value* operand : region.operands()) {
    const Instruction* definition = operand->definition();
    const bool is_literal = definition != nullptr && definition->literal() != nullptr;
    arguments.push_back(is_literal ? builder.literal(definition->literal())
                                   : main.add_parameter(operand->type(), operand->name()));
  }
  const size_t given = main.instructions().size();
  const std::vector<Instruction*> steps = copy_steps(region, main, nullptr, arguments);
  main.set_results({steps.back()->result()}, {"y"});
  join(steps, first);
  return std::all_of(std::next(main.instructions().begin(), static_cast<std::ptrdiff_t>(given)),
                     main.instructions().end(),
                     [&](const auto& part) { return supports(*part).empty(); });
}

void cut(Instruction& region, const std::vector<bool>& first) {
  Module& module = *region.module();
  const std::vector<Instruction*> steps = copy_steps(region, module, &region, region.operands());
  const std::string name = region.result()->name();
  module.replace_uses(region.result(), steps.back()->result());
  join(steps, first);
  const auto at = std::ranges::find_if(module.instructions(),
                                       [&](const auto& each) { return each.get() == &region; });
  Value* result = (*std::prev(at))->result();  // of the last step, or of a region in its place
  module.erase(&region);
  module.rename(result, name);
}

// Equal regions and the first parts of their cuts.
struct Found {
  std::vector<Instruction*> regions;
  std::vector<std::vector<bool>> parts;
  RegionForms forms;
};

bool run(Program& program, const Supports& supports, const ChooseForm& choose,
         const SymbolSizes& sizes) {
  if (choose == nullptr) return false;
  std::vector<Instruction*> regions;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const bool is_whole = instruction->op() == ops::region &&
                            instruction->implements() == nullptr && !instruction->deferred();
      if (is_whole) regions.push_back(instruction.get());
    }
  }
  std::map<std::string, Found> all;
  for (Instruction* region : regions) {
    const Steps steps(*region, sizes);
    std::string text = steps.text();
    Found& found = all[text];
    found.forms.bytes += steps.bytes();
    found.regions.push_back(region);
    if (found.regions.size() > 1) continue;
    found.forms.region = std::move(text);
    found.forms.forms = {"whole"};
    for (const size_t last : steps.cuts()) {
      std::vector<bool> first = steps.first_part(last);
      if (!is_supported(*region, first, supports)) continue;
      found.parts.push_back(std::move(first));
      found.forms.forms.push_back(steps.form(last));
    }
  }
  bool changed = false;
  for (const auto& [text, found] : all) {
    const size_t form = found.parts.empty() ? 0 : choose(found.forms);
    if (form == 0) continue;
    const std::vector<bool>& first = found.parts[form - 1];
    for (Instruction* region : found.regions) {
      // One may have literals where an equal region has none.
      if (!is_supported(*region, first, supports)) continue;
      cut(*region, first);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Pass cut_regions(std::function<std::string(const Instruction&)> supports, ChooseForm choose,
                 const SymbolSizes& sizes) {
  return {.name = "cut_regions",
          .doc = "Cuts regions in two, where `--tune` measured that to be faster.",
          .run = [supports = std::move(supports), choose = std::move(choose),
                  sizes](Program& program) { return run(program, supports, choose, sizes); }};
}

}  // namespace lathe
