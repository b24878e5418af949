// SPDX-License-Identifier: MIT
#include "ops/support/control_flow.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lathe {
namespace {

void collect_symbols(const Type& type, std::set<std::string>& out) {
  if (!type.is_tensor()) {
    collect_symbols(*type.item, out);
  } else if (type.dims) {
    std::vector<SymbolRef> symbols;
    for (const Dim& dim : *type.dims) dim.collect_symbols(symbols);
    for (const SymbolRef& symbol : symbols) out.insert(symbol->name);
  }
}

void collect_found(const Module& body, std::set<std::string>& out) {
  for (const auto& instruction : body.instructions()) {
    for (const SymbolRef& symbol : instruction->found()) out.insert(symbol->name);
    for (const Module* inner : instruction->bodies()) {
      const std::set<std::string> deeper = inner_symbols(*instruction, *inner);
      out.insert(deeper.begin(), deeper.end());
    }
  }
}

}  // namespace

int count_attribute(const Instruction& instruction, std::string_view name) {
  constexpr int64_t kMost = 1 << 20;
  const auto count = std::get<int64_t>(*find_attribute(instruction.attributes(), name));
  return count < 0 || count > kMost ? -1 : static_cast<int>(count);
}

void bind_captures(Instruction& instruction, int body_index) {
  Module& body = *instruction.bodies()[static_cast<size_t>(body_index)];
  for (size_t p = 0; p < body.parameters().size(); ++p) {
    const int operand = instruction.op().capture(instruction, body_index, static_cast<int>(p));
    if (operand < 0) continue;
    const auto& operands = instruction.operands();
    const bool exists = static_cast<size_t>(operand) < operands.size();
    const Value* value = exists ? operands[static_cast<size_t>(operand)] : nullptr;
    check(value != nullptr, ErrorKind::invalid_model,
          "{}: parameter '{}' of a body captures operand {}, which is missing",
          instruction.op().name, escape(body.parameters()[p]->name()), operand);
    body.parameters()[p]->set_type(value->type());
    body.parameters()[p]->set_elements(value->elements());
  }
}

std::set<std::string> inner_symbols(const Instruction& instruction, const Module& body) {
  std::set<std::string> inner;
  for (const auto& parameter : body.parameters()) collect_symbols(parameter->type(), inner);
  std::set<std::string> outer;
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr) collect_symbols(operand->type(), outer);
  }
  for (const std::string& name : outer) inner.erase(name);
  collect_found(body, inner);
  return inner;
}

Dim outer_dim(Infer& c, const Dim& dim, const std::set<std::string>& inner, std::string_view hint) {
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  for (const SymbolRef& symbol : symbols) {
    if (inner.contains(symbol->name)) return c.found(hint);
  }
  return dim;
}

Type outer_type(Infer& c, const Type& type, const std::set<std::string>& inner,
                std::string_view hint) {
  if (!type.is_tensor()) {
    // Items of a sequence have their own dims; symbols inner to the body become unknown outside.
    std::set<std::string> used;
    collect_symbols(type, used);
    for (const std::string& name : used) {
      if (!inner.contains(name)) continue;
      Type item = *type.item;
      while (!item.is_tensor()) item = Type(*item.item);
      Type out = Type::unranked(item.element);
      return type.kind == Type::Kind::sequence ? Type::sequence(out) : Type::optional(out);
    }
    return type;
  }
  if (!type.dims) return type;
  std::vector<Dim> dims;
  for (const Dim& dim : *type.dims) dims.push_back(outer_dim(c, dim, inner, hint));
  return Type::tensor(type.element, std::move(dims));
}

namespace {

// The guards of a body and of those within it, while types of its parameters are found: drops
// guards that only hold for the types of an earlier round.
class BodyGuards {
 public:
  explicit BodyGuards(Module& body) {
    add(body);
    next_round();
  }
  void next_round() {
    for (Entry& entry : entries_) {
      std::vector<Guard>& guards = entry.module->guards();
      std::vector<Guard>& list = entry.has_round ? entry.dropped : entry.before;
      std::ranges::move(guards, std::back_inserter(list));
      guards.clear();
      entry.has_round = true;
    }
  }
  // Adds what was there before, in its order, to the guards of the last round.
  void finish() {
    for (Entry& entry : entries_) {
      std::vector<Guard> last = std::exchange(entry.module->guards(), {});
      for (Guard& guard : entry.before) {
        if (!contains(entry.dropped, guard) || contains(last, guard)) {
          entry.module->add_guard(std::move(guard));
        }
      }
      for (Guard& guard : last) entry.module->add_guard(std::move(guard));
    }
  }

 private:
  struct Entry {
    Module* module;
    std::vector<Guard> before;
    std::vector<Guard> dropped;
    bool has_round = false;
  };
  static bool contains(const std::vector<Guard>& list, const Guard& guard) {
    return std::ranges::find(list, guard) != list.end();
  }
  void add(Module& module) {
    entries_.push_back({&module, {}, {}});
    for (const auto& instruction : module.instructions()) {
      for (Module* body : instruction->bodies()) add(*body);
    }
  }

  std::vector<Entry> entries_;
};

}  // namespace

void bind_carried(Instruction& instruction, Module& body, int first_parameter, int first_operand,
                  int first_result, int count) {
  for (int i = 0; i < count; ++i) {
    const auto parameter = static_cast<size_t>(first_parameter + i);
    const Value* operand = instruction.operands()[static_cast<size_t>(first_operand + i)];
    check(operand != nullptr, ErrorKind::invalid_model, "{}: carried value {} is missing",
          instruction.op().name, i);
    body.parameters()[parameter]->set_type(operand->type());
    body.parameters()[parameter]->set_elements(std::nullopt);
  }
  // Each round replaces at least one dim by a symbol or makes one type unranked: the number of dims
  // bounds the rounds.
  BodyGuards guards(body);
  for (bool stable = false; !stable;) {
    guards.next_round();
    infer(body);
    stable = true;
    for (int i = 0; i < count; ++i) {
      Value& parameter = *body.parameters()[static_cast<size_t>(first_parameter + i)];
      const Value& next = *body.results()[static_cast<size_t>(first_result + i)];
      if (parameter.type() == next.type()) continue;
      const Type before = parameter.type();
      std::optional<Type> joined = join_types(before, next.type(), [&](int axis) -> Dim {
        const SymbolRef own = (*before.dims)[static_cast<size_t>(axis)].as_symbol();
        if (own != nullptr && own->name.starts_with("carried")) return own;
        return body.program().add_symbol("carried", SymbolKind::bound, {0, kUnbounded});
      });
      check(joined.has_value(), ErrorKind::invalid_model,
            "{}: '{}' is {} in one iteration and {} in the next", instruction.op().name,
            parameter.name(), before.to_string(), next.type().to_string());
      if (!(*joined == before)) {
        parameter.set_type(std::move(*joined));
        stable = false;
      }
    }
  }
  guards.finish();
}

}  // namespace lathe
