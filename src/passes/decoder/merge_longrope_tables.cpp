// SPDX-License-Identifier: MIT
#include "passes/decoder/merge_longrope_tables.h"

#include <algorithm>

#include "ir/builder.h"

namespace lathe {
namespace {

// Scalars change their form on the way to a condition.
const Value* origin_of(const Value* value) {
  while (const Instruction* definition = value->definition()) {
    const std::string_view op = definition->op().name;
    if (op != "cast" && op != "identity" && op != "reshape" && op != "squeeze" && op != "unsqueeze")
      break;
    value = definition->operands()[0];
  }
  return value;
}

// How a choice goes: its first side for long sequences, or its second.
struct Condition {
  int64_t most_short = 0;
  bool first_is_long = true;
};

// A choice between tables, for one result of its instruction.
struct Choice {
  Value* result = nullptr;
  Instruction* short_table = nullptr;  // literals
  Instruction* long_table = nullptr;
};

class Joining {
 public:
  Joining(Program& program, const LongRopeNames& names) : main_(program.main()), names_(names) {}

  std::optional<LongRopeSwitch> run() {
    for (const auto& instruction : main_.instructions()) {
      const std::string_view op = instruction->op().name;
      if ((op == "if" || op == "where") && !collect(*instruction)) return std::nullopt;
    }
    if (choices_.empty()) return std::nullopt;
    for (const Choice& choice : choices_) {
      for (const Use& use : choice.result->uses()) {
        if (!understood(use)) return std::nullopt;
      }
    }
    const std::vector<Dim>& tokens = *names_.tokens->type().dims;  // or embeddings
    Value* rows =
        main_.add_parameter(Type::tensor(ElementType::i64, {tokens[0], tokens[1]}), names_.rows);
    for (const Choice& choice : choices_) join(choice, rows);
    return LongRopeSwitch{*most_short_, *first_long_};
  }

 private:
  bool is_total(const Value* value) const {
    const auto& elements = origin_of(value)->elements();
    return elements && elements->size() == 1 &&
           std::ranges::find(names_.totals, elements->front()) != names_.totals.end();
  }

  // total > n and its like; nullopt where the length decides nothing.
  std::optional<Condition> condition_of(const Value* value) const {
    const Instruction* test = origin_of(value)->definition();
    if (test == nullptr || test->operands().size() != 2) return std::nullopt;
    const std::string_view op = test->op().name;
    const bool greater = op.starts_with("greater");
    if (!greater && !op.starts_with("less")) return std::nullopt;
    const bool total_first = is_total(test->operands()[0]);
    if (!total_first && !is_total(test->operands()[1])) return std::nullopt;
    const auto& elements = test->operands()[total_first ? 1 : 0]->elements();
    if (!elements || elements->size() != 1 || !elements->front().is_constant()) return std::nullopt;
    const int64_t bound = *elements->front().constant();
    Condition condition;
    condition.first_is_long = greater == total_first;
    // Long from n + 1 on for "total > n" and "total <= n", from n on for the others.
    const bool with_equal = op.ends_with("_or_equal");
    condition.most_short = condition.first_is_long == with_equal ? bound - 1 : bound;
    return condition;
  }

  // A literal, in a body or outside.
  static Instruction* literal_of(const Instruction& choice, const Module* body, Value* value) {
    if (value->definition() == nullptr && body != nullptr) {
      value = choice.operands()[static_cast<size_t>(value->index()) + 1];
    }
    Instruction* definition = value->definition();
    return definition != nullptr && definition->literal() ? definition : nullptr;
  }

  // False if a choice by length is not one between tables.
  bool collect(Instruction& instruction) {
    const std::optional<Condition> condition = condition_of(instruction.operands()[0]);
    if (!condition) return true;
    if (most_short_ && *most_short_ != condition->most_short) return false;
    most_short_ = condition->most_short;
    const bool bodies = !instruction.bodies().empty();
    const Module* then = bodies ? instruction.bodies()[0] : nullptr;
    const Module* other = bodies ? instruction.bodies()[1] : nullptr;
    for (int i = 0; i < static_cast<int>(instruction.results().size()); ++i) {
      const auto index = static_cast<size_t>(i);
      Instruction* first = literal_of(instruction, then,
                                      bodies ? then->results()[index] : instruction.operands()[1]);
      Instruction* second = literal_of(
          instruction, other, bodies ? other->results()[index] : instruction.operands()[2]);
      if (first == nullptr || second == nullptr) return false;
      if (!condition->first_is_long) std::swap(first, second);
      if (!tables(*second, *first)) return false;
      choices_.push_back({instruction.result(i), second, first});
    }
    return true;
  }

  bool tables(const Instruction& short_table, const Instruction& long_table) {
    const std::vector<Dim>& a = *short_table.result()->type().dims;
    const std::vector<Dim>& b = *long_table.result()->type().dims;
    if (a.size() != 2 || b.size() != 2 || !(a[1] == b[1])) return false;
    if (short_table.result()->type().element != long_table.result()->type().element) return false;
    const int64_t rows = *a[0].constant();
    if (rows < *most_short_ || (first_long_ && *first_long_ != rows)) return false;
    first_long_ = rows;
    return true;
  }

  // Whether the table is read by the position of a row.
  bool understood(const Use& use) const {
    if (use.user == nullptr) return false;
    const std::string_view op = use.user->op().name;
    const auto& operands = use.user->operands();
    const auto by_position = [&](size_t at, bool may_lack) {
      if (at >= operands.size() || operands[at] == nullptr) return may_lack;
      return names_.positions != nullptr && origin_of(operands[at]) == names_.positions &&
             operands[at]->type().rank() == 2;
    };
    if (op == "group_query_attention")
      return (use.index == 7 || use.index == 8) && by_position(9, true);
    if (op == "rotary_embedding")
      return (use.index == 1 || use.index == 2) && by_position(3, false);
    return op == "gather" && use.index == 0 && by_position(1, false) &&
           std::get<int64_t>(*find_attribute(use.user->attributes(), "axis")) == 0;
  }

  void join(const Choice& choice, Value* rows) {
    Builder builder(main_, choice.result->definition());
    Value* parts[] = {builder.literal(choice.short_table->literal()),
                      builder.literal(choice.long_table->literal())};
    Value* joined = builder("concat", {parts[0], parts[1]}, {{"axis", int64_t{0}}});
    while (!choice.result->uses().empty()) {
      const Use use = choice.result->uses().front();
      use.user->set_operand(use.index, joined);
      read_by_rows(use.user, rows);
    }
  }

  void read_by_rows(Instruction* user, Value* rows) {
    const size_t at = user->op().name == "gather"             ? 1
                      : user->op().name == "rotary_embedding" ? 3
                                                              : 9;
    Builder builder(main_, user);
    builder.set_origins(user->origins());
    if (at < user->operands().size()) {
      user->set_operand(static_cast<int>(at), rows);
      return;
    }
    std::vector<Value*> operands = user->operands();
    operands.resize(at, nullptr);
    operands.push_back(rows);
    Instruction* anew = builder.add(user->op().name, std::move(operands), user->attributes());
    for (int i = 0; i < static_cast<int>(user->results().size()); ++i) {
      main_.replace_uses(user->result(i), anew->result(i));
    }
    main_.erase(user);
  }

  Module& main_;
  const LongRopeNames& names_;
  std::vector<Choice> choices_;
  std::optional<int64_t> most_short_;
  std::optional<int64_t> first_long_;
};

}  // namespace

std::optional<LongRopeSwitch> merge_longrope_tables(Program& program, const LongRopeNames& names) {
  return Joining(program, names).run();
}

}  // namespace lathe
