// SPDX-License-Identifier: MIT
#include "passes/promote_state.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/support/symbolic.h"

namespace lathe {
namespace {

template <class Names>
int find_name(const Names& names, std::string_view name, std::string_view what) {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
    known.emplace_back(names[i]);
  }
  fail(ErrorKind::invalid_argument, "the program has no {} '{}'{}", what, escape(name),
       did_you_mean(name, known));
}

Value* parameter_of(Module& main, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& parameter : main.parameters()) names.push_back(parameter->name());
  return main.parameters()[static_cast<size_t>(find_name(names, name, "input"))].get();
}

// concat(past, x) along an axis of the past whose size is one symbol.
struct Growth {
  Instruction* concat = nullptr;
  int axis = 0;
  SymbolRef length;
};

std::optional<Growth> match_concat(Instruction* instruction, const Value* past) {
  if (instruction == nullptr || instruction->op() != ops::concat ||
      instruction->operands().size() != 2 || instruction->operands()[0] != past) {
    return std::nullopt;
  }
  const auto given = std::get<int64_t>(*find_attribute(instruction->attributes(), "axis"));
  const int rank = past->type().rank();
  const int axis = static_cast<int>(given < 0 ? given + rank : given);
  SymbolRef length = (*past->type().dims)[static_cast<size_t>(axis)].as_symbol();
  if (length == nullptr) return std::nullopt;
  return Growth{instruction, axis, std::move(length)};
}

std::optional<int64_t> constant_of(const Instruction& instruction, size_t operand) {
  if (operand >= instruction.operands().size() || instruction.operands()[operand] == nullptr) {
    return std::nullopt;
  }
  const auto& elements = instruction.operands()[operand]->elements();
  if (!elements || elements->size() != 1) return std::nullopt;
  return elements->front().constant();
}

// slice of concat(past, x) that keeps the last `window` elements: negative start, no end.
struct Window {
  Growth growth;
  int64_t length = 0;
};

std::optional<Window> match_window(Instruction* instruction, const Value* past) {
  if (instruction == nullptr || instruction->op() != ops::slice) return std::nullopt;
  std::optional<Growth> growth = match_concat(instruction->operands()[0]->definition(), past);
  const std::optional<int64_t> start = constant_of(*instruction, 1);
  const std::optional<int64_t> end = constant_of(*instruction, 2);
  const std::optional<int64_t> axis = constant_of(*instruction, 3);
  const std::optional<int64_t> step =
      instruction->operands().size() > 4 ? constant_of(*instruction, 4) : 1;
  if (!growth || !start || !end || !axis || !step) return std::nullopt;
  const int rank = past->type().rank();
  const bool to_end = *end >= std::numeric_limits<int32_t>::max();
  if (*start >= 0 || !to_end || *step != 1 || (*axis < 0 ? *axis + rank : *axis) != growth->axis) {
    return std::nullopt;
  }
  return Window{std::move(*growth), -*start};
}

class Promotion {
 public:
  Promotion(Program& program, const StatePair& pair)
      : program_(program), main_(program.main()), pair_(pair) {
    past_ = parameter_of(main_, pair.past);
    index_ = find_name(main_.result_names(), pair.present, "result");
    present_ = main_.results()[static_cast<size_t>(index_)];
    check(past_->type().is_ranked() && present_->type().is_ranked() &&
              past_->type().element == present_->type().element &&
              past_->type().rank() == present_->type().rank(),
          ErrorKind::invalid_argument,
          "'{}' is {}, '{}' is {}: a state requires one element type and rank", escape(pair.past),
          past_->type().to_string(), escape(pair.present), present_->type().to_string());
  }

  void run() {
    const std::optional<Growth> growth = match_concat(present_->definition(), past_);
    const std::optional<Window> window = match_window(present_->definition(), past_);
    State state;
    state.name = unique_name();
    state.type = past_->type();
    state.input = pair_.past;
    state.output = pair_.present;
    state.kind = growth ? StateKind::append : window ? StateKind::window : StateKind::carry;
    if (window) state.window = window->length;
    const Growth* grown = growth ? &*growth : window ? &window->growth : nullptr;
    if (grown != nullptr) {
      state.axis = grown->axis;
      make_length(grown->length, state.window);
    }
    const std::string name = state.name;
    program_.states().push_back(std::move(state));
    Instruction* first =
        main_.instructions().empty() ? nullptr : main_.instructions().front().get();
    Builder builder(main_, first);
    Value* version = builder(ops::state_read, {}, {{"state", name}});
    main_.replace_uses(past_, version);
    main_.remove_result(index_);
    main_.remove_parameter(past_->index());
    if (grown != nullptr) {
      append(name, version, grown->concat);
    } else {
      Builder end(main_);
      end("state_replace", {version, present_}, {{"state", name}});
    }
  }

 private:
  std::string unique_name() const {
    std::string name;
    for (const char c : pair_.past) {
      name += (std::isalnum(static_cast<unsigned char>(c)) != 0) ? c : '_';
    }
    std::string unique = name;
    for (int n = 1; program_.find_state(unique) != nullptr; ++n) {
      unique = fmt::format("{}_{}", name, n);
    }
    return unique;
  }

  void make_length(const SymbolRef& symbol, int64_t window) {
    Symbol length = *program_.find_symbol(symbol->name);
    length.kind = SymbolKind::length;
    if (window > 0) length.range.max = std::min(length.range.max, window);
    program_.redefine_symbol(length);
  }

  void append(const std::string& name, Value* version, Instruction* concat) {
    Builder builder(main_, concat);
    builder.set_origins(concat->origins());
    Value* grown = builder(ops::state_append, {version, concat->operands()[1]}, {{"state", name}});
    main_.replace_uses(concat->result(), grown);
    main_.erase(concat);
  }

  Program& program_;
  Module& main_;
  const StatePair& pair_;
  Value* past_;
  Value* present_;
  int index_;
};

}  // namespace

void promote_state(Program& program, std::span<const StatePair> pairs) {
  for (const StatePair& pair : pairs) Promotion(program, pair).run();
}

}  // namespace lathe
