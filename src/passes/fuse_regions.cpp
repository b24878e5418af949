// SPDX-License-Identifier: MIT
#include "passes/fuse_regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

// Kernels keep the operands of a launch on the stack.
constexpr size_t kMaxOperands = 16;
constexpr size_t kMaxInstructions = 32;

using Chain = std::vector<Instruction*>;  // each behind what it reads

bool is_plain(const Instruction& instruction) {
  const auto& results = instruction.results();
  const bool one_result =
      !results.empty() && std::all_of(results.begin() + 1, results.end(),
                                      [](const Value& result) { return result.uses().empty(); });
  return one_result && !instruction.deferred() && instruction.found().empty() &&
         instruction.bodies().empty() && instruction.result()->type().is_ranked() &&
         !instruction.result()->type().is_boxed();
}

// The only user of a value; null if there are several uses or a result of the module.
Instruction* only_user(const Value& value) {
  return value.uses().size() == 1 ? value.uses()[0].user : nullptr;
}

// Splits the last axis into two equal parts.
bool is_halves(const Instruction& split) {
  if (split.op() != ops::split || split.results().size() != 2 ||
      !split.result()->type().is_ranked())
    return false;
  const auto axis = std::get<int64_t>(*find_attribute(split.attributes(), "axis"));
  const auto rank = static_cast<int64_t>(split.result()->type().rank());
  const bool equal = split.operands().size() < 2 || split.operands()[1] == nullptr;
  return equal && (axis < 0 ? axis + rank : axis) == rank - 1 &&
         split.result(0)->type() == split.result(1)->type();
}

// Values that a chain reads from outside.
std::vector<Value*> captured(const Chain& chain) {
  std::set<const Instruction*> inside(chain.begin(), chain.end());
  std::vector<Value*> values;
  for (const Instruction* instruction : chain) {
    for (Value* operand : instruction->operands()) {
      const bool outer = operand != nullptr && !inside.contains(operand->definition());
      if (outer && std::ranges::find(values, operand) == values.end()) values.push_back(operand);
    }
  }
  return values;
}

class Fuser {
 public:
  Fuser(Module& module, const FusionRules& rules) : module_(module), rules_(rules) {}

  bool run() {
    bool changed = false;
    for (const Form form : {Form::anchor, Form::rows, Form::elementwise}) {
      std::vector<Instruction*> order;
      position_.clear();
      for (const auto& instruction : module_.instructions()) {
        position_[instruction.get()] = order.size();
        order.push_back(instruction.get());
      }
      // Elementwise chains start at their last instruction.
      if (form == Form::elementwise) std::ranges::reverse(order);
      taken_.clear();
      for (Instruction* instruction : order) {
        if (taken_.contains(instruction) || !is_plain(*instruction)) continue;
        const Chain chain = form == Form::anchor ? epilogue_chain(*instruction)
                            : form == Form::rows ? row_chain(*instruction)
                                                 : elementwise_chain(*instruction);
        if (chain.size() < 2) continue;
        taken_.insert(chain.begin(), chain.end());
        make_region(chain);
        changed = true;
      }
    }
    return changed;
  }

 private:
  enum class Form : uint8_t { anchor, rows, elementwise };

  // Fewer elements along the last axis fill half a vector of AVX-512 at most.
  static constexpr int64_t kLeastColumns = 8;

  // What computes over the last axis, the elementwise instructions that follow it one by one, and
  // their producers.
  Chain row_chain(Instruction& rows) const {
    if (!rules_.row_op(rows).empty()) return {};
    const std::vector<Dim>& dims = *rows.result()->type().dims;
    if (dims.empty() || dims.back().constant().value_or(kLeastColumns) < kLeastColumns) return {};
    Instruction* root = &rows;
    while (true) {
      Instruction* next = only_user(*root->result());
      if (next == nullptr || next->module() != &module_ || taken_.contains(next) ||
          !is_plain(*next) || !joins(*next) || reads_rounded(*next) ||
          next->result()->type().dims != dims) {
        break;
      }
      root = next;
    }
    Chain chain = chain_of(*root, &rows);
    const bool has_rows = std::ranges::find(chain, &rows) != chain.end();
    return has_rows ? chain : Chain{};
  }

  // An anchor of bytes goes on with what computes on its dequantised result, until that is
  // quantised again: f32 in between needs no memory.
  Chain requantised_chain(Instruction& anchor) const {
    Chain chain{&anchor};
    while (chain.size() + 2 <= kMaxInstructions) {
      const Value& value = *chain.back()->result();
      Instruction* next = only_user(value);
      if (next == nullptr || next->module() != &module_ || !is_plain(*next) ||
          taken_.contains(next) || next->result()->type().dims != value.type().dims ||
          !rules_.epilogue(anchor, *next, value.uses()[0].index).empty()) {
        return {};
      }
      for (const Value* side : next->operands()) {
        Instruction* producer = side == nullptr ? nullptr : side->definition();
        if (side != &value && producer != nullptr && is_repeatable(*producer)) {
          chain.push_back(producer);
        }
      }
      chain.push_back(next);
      if (captured(chain).size() > kMaxOperands) return {};
      if (next->op() == ops::quantize_linear) return chain;
    }
    return {};
  }

  // The other product that `next` reads beside that of `product`; null: none.
  Instruction* twin_of(const Instruction& product) const {
    const Instruction* next = only_user(*product.result());
    if (next == nullptr || next->operands().size() != 2 || product.operands().empty()) {
      return nullptr;
    }
    const int own = product.result()->uses()[0].index;
    const Value* other = next->operands()[static_cast<size_t>(1 - own)];
    Instruction* twin = other == nullptr ? nullptr : other->definition();
    return twin != nullptr && twin->op() == product.op() &&
                   twin->operands()[0] == product.operands()[0] && is_plain(*twin) &&
                   is_plain(*next) && only_user(*other) == next &&
                   next->result()->type() == other->type() &&
                   rules_.epilogue(product, *twin, kTwin).empty() &&
                   rules_.epilogue(product, *next, own).empty()
               ? twin
               : nullptr;
  }
  // The first of the two products that alone read the value; null: none.
  Instruction* first_of_twins(const Value& value) const {
    if (value.uses().size() != 2 || value.uses()[0].user == nullptr) return nullptr;
    Instruction* product = value.uses()[0].user;
    Instruction* twin =
        is_plain(*product) && !product->operands().empty() ? twin_of(*product) : nullptr;
    if (twin == nullptr || twin != value.uses()[1].user) return nullptr;
    return position_.at(product) < position_.at(twin) ? product : twin;
  }
  // Goes on with the twin of the chain's last instruction, if it has one that follows it.
  const Instruction* add_twin(Chain& chain) const {
    Instruction* twin = taken_.contains(chain.back()) ? nullptr : twin_of(*chain.back());
    const bool follows = twin != nullptr && position_.at(chain.back()) < position_.at(twin);
    if (follows && !taken_.contains(twin)) chain.push_back(twin);
    return chain.back();
  }

  // An anchor, the split of its columns into halves, and what alone reads both.
  Chain halves_chain(Instruction& anchor) const {
    Instruction* split = only_user(*anchor.result());
    if (split == nullptr || !is_halves(*split) || split->module() != &module_) return {};
    Instruction* reader = only_user(*split->result(0));
    const bool reads_both = reader != nullptr && reader == only_user(*split->result(1)) &&
                            reader->operands().size() == 2 &&
                            reader->operands()[0] == split->result(0) && is_plain(*reader);
    return reads_both && rules_.epilogue(anchor, *reader, kHalves).empty()
               ? Chain{&anchor, split, reader}
               : Chain{};
  }

  Chain epilogue_chain(Instruction& first) const {
    if (Chain halves = halves_chain(first); !halves.empty()) return halves;
    const Type& type = first.result()->type();
    if (type.element == ElementType::u8 || type.element == ElementType::i8) {
      return requantised_chain(first);
    }
    Chain chain{&first};
    const Instruction* anchor = add_twin(chain);
    do {
      add_chain(chain, anchor);
    } while (!is_prologue(anchor->op()) && !narrows(*chain.back()) && add_graph(chain, *anchor));
    return chain;
  }

  // Goes on with the only user of the last value, and its only user.
  void add_chain(Chain& chain, const Instruction*& anchor) const {
    while (chain.size() < kMaxInstructions) {
      const Value& value = *chain.back()->result();
      Instruction* next = only_user(value);
      const bool precedes = is_prologue(anchor->op());
      if (next == nullptr && precedes) next = first_of_twins(value);
      if (next == nullptr || next->module() != &module_ || !is_plain(*next) ||
          taken_.contains(next) ||
          (!precedes && !narrows(*next) && !(next->result()->type() == value.type())) ||
          !rules_.epilogue(*anchor, *next, value.uses()[0].index).empty()) {
        break;
      }
      chain.push_back(next);
      if (precedes) anchor = add_twin(chain);
      if (narrows(*next)) break;
      if (captured(chain).size() <= kMaxOperands) continue;
      chain.pop_back();
      break;
    }
  }

  // Goes on with instructions that read the last value or each other's, to the last of which the
  // result alone is read elsewhere. False if there are none.
  bool add_graph(Chain& chain, const Instruction& anchor) const {
    const Type type = chain.back()->result()->type();
    const auto first = static_cast<std::ptrdiff_t>(chain.size()) - 1;
    Chain all = chain;
    std::set<Instruction*> inside(all.begin(), all.end());
    while (all.size() < kMaxInstructions) {
      Instruction* next = nullptr;  // what first reads them
      for (auto at = all.begin() + first; at != all.end(); ++at) {
        for (const Use& use : (*at)->result()->uses()) {
          // A region is at no place of these.
          if (use.user == nullptr || !position_.contains(use.user))
            return static_cast<std::ptrdiff_t>(chain.size()) > first + 1;
          const bool earlier = next == nullptr || position_.at(use.user) < position_.at(next);
          if (!inside.contains(use.user) && earlier) next = use.user;
        }
      }
      if (next == nullptr || !is_plain(*next) || taken_.contains(next) ||
          next->result()->type().dims != type.dims ||
          !rules_.epilogue(anchor, *next, kGraph).empty()) {
        break;
      }
      all.push_back(next);
      inside.insert(next);
      if (captured(all).size() > kMaxOperands) break;
      const bool closed = std::all_of(all.begin() + first, all.end() - 1, [&](Instruction* i) {
        return are_inside(i->result()->uses(), inside);
      });
      if (closed && next->result()->type() == type) chain = all;
    }
    return static_cast<std::ptrdiff_t>(chain.size()) > first + 1;
  }

  static bool narrows(const Instruction& instruction) {
    return instruction.op() == ops::cast &&
           instruction.result()->type().element == ElementType::bf16;
  }

  bool joins(const Instruction& instruction) const {
    return rules_.elementwise(instruction).empty();
  }

  // Producers that cost less than loading their results, which are larger than their operands.
  static bool is_repeatable(const Instruction& producer) {
    return producer.op() == ops::dequantize_linear;
  }

  static bool are_inside(const std::vector<Use>& uses, const std::set<Instruction*>& inside) {
    return std::ranges::all_of(
        uses, [&](const Use& use) { return use.user != nullptr && inside.contains(use.user); });
  }

  Chain elementwise_chain(Instruction& root) const {
    return joins(root) ? chain_of(root, nullptr) : Chain{};
  }

  // The instruction and, before it, producers of the same shape that only it and they read, or
  // that are repeated. One of them, if given, computes over the last axis.
  Chain chain_of(Instruction& root, const Instruction* rows) const {
    std::set<Instruction*> inside{&root};
    std::set<const Instruction*> refused;  // would exceed a limit
    const auto fits = [&](Instruction* producer) {
      if (producer == nullptr || inside.contains(producer) || refused.contains(producer) ||
          !is_plain(*producer) || (producer != rows && !joins(*producer)) ||
          producer->result()->type().dims != root.result()->type().dims) {
        return false;
      }
      if (is_repeatable(*producer)) return true;
      return !taken_.contains(producer) &&
             std::ranges::all_of(producer->result()->uses(), [&](const Use& use) {
               return use.user != nullptr && inside.contains(use.user) &&
                      !reads_rounded(*use.user) &&
                      (use.user == &root || !is_repeatable(*use.user) ||
                       are_inside(use.user->result()->uses(), inside));
             });
    };
    // A producer fits once all its users are inside.
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instruction* user : ordered(inside)) {
        for (const Value* operand : user->operands()) {
          Instruction* producer = operand == nullptr ? nullptr : operand->definition();
          if (!fits(producer)) continue;
          inside.insert(producer);
          changed = true;
          if (inside.size() <= kMaxInstructions &&
              captured(ordered(inside)).size() <= kMaxOperands) {
            continue;
          }
          inside.erase(producer);
          refused.insert(producer);
        }
      }
    }
    return ordered(inside);
  }

  Chain ordered(const std::set<Instruction*>& inside) const {
    Chain chain(inside.begin(), inside.end());
    std::ranges::sort(chain, {}, [&](const Instruction* i) { return position_.at(i); });
    return chain;
  }

  Module& module_;
  const FusionRules& rules_;
  std::set<const Instruction*> taken_;
  std::map<const Instruction*, size_t> position_;
};

bool fuse(Program& program, const FusionRules& rules) {
  std::set<const Module*> regions;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (instruction->op() == ops::region) regions.insert(instruction->bodies()[0]);
      if (instruction->implements() != nullptr) regions.insert(instruction->implements());
    }
  }
  bool changed = false;
  std::vector<Module*> modules;  // without the bodies of new regions
  for (const auto& module : program.modules()) modules.push_back(module.get());
  for (Module* module : modules) {
    if (!regions.contains(module)) changed |= Fuser(*module, rules).run();
  }
  return changed;
}

}  // namespace

void make_region(const Chain& chain) {
  Instruction& last = *chain.back();
  Module& module = *last.module();
  const std::vector<Value*> operands = captured(chain);
  Module& body = module.program().add_module("region");
  std::map<const Value*, Value*> inner;
  for (Value* operand : operands) {
    inner[operand] = body.add_parameter(operand->type(), operand->name());
  }
  Builder in_body(body);
  std::vector<Origin> origins;
  for (const Instruction* instruction : chain) {
    std::vector<Value*> arguments;
    for (const Value* operand : instruction->operands()) {
      arguments.push_back(operand == nullptr ? nullptr : inner.at(operand));
    }
    in_body.set_origins(instruction->origins());
    origins.insert(origins.end(), instruction->origins().begin(), instruction->origins().end());
    const Instruction* copy =
        in_body.add(instruction->op(), std::move(arguments), instruction->attributes(), {},
                    static_cast<int>(instruction->results().size()), instruction->result()->name());
    for (int i = 0; i < static_cast<int>(instruction->results().size()); ++i) {
      inner[instruction->result(i)] = const_cast<Value*>(copy->result(i));
    }
  }
  body.set_results({inner.at(last.result())}, {last.result()->name()});
  Builder builder(module, &last);
  builder.set_origins(std::move(origins));
  const std::string name = last.result()->name();
  Value* result = builder.add(ops::region, operands, {}, {&body}, 1)->result();
  module.replace_uses(last.result(), result);
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    if ((*at)->result()->uses().empty()) module.erase(*at);  // else a repeated one
  }
  module.rename(result, name);
}

bool is_elementwise(const Op& op) { return op.formula != nullptr && op.infer == nullptr; }

bool reads_rounded(const Instruction& instruction) {
  if (instruction.op() != ops::cast) return false;
  const ElementType from = instruction.operands()[0]->type().element;
  return is_floating(from) && info(from).bits < 32;
}

bool is_prologue(const Op& op) {
  return is_elementwise(op) ||
         is_any_of(op, {&ops::cast, &ops::global_average_pool, &ops::layer_normalization,
                        &ops::rms_normalization, &ops::simplified_layer_normalization});
}

Pass fuse_regions(FusionRules rules) {
  return {.name = "fuse_regions",
          .doc = "Fuses epilogues with their anchors, and elementwise instructions.",
          .run = [rules = std::move(rules)](Program& program) { return fuse(program, rules); }};
}

}  // namespace lathe
