// SPDX-License-Identifier: MIT
#include "passes/decoder/merge_longrope_tables.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

// Looks through casts and reshapes of scalars.
const Value* origin_of(const Value* value) {
  while (const Instruction* definition = value->definition()) {
    const Op& op = definition->op();
    if (!is_any_of(op,
                   {&ops::cast, &ops::identity, &ops::reshape, &ops::squeeze, &ops::unsqueeze})) {
      break;
    }
    value = definition->operands()[0];
  }
  return value;
}

// Which branch of a length test is for long sequences.
struct Condition {
  int64_t max_short = 0;
  bool first_is_long = true;
};

// A choice between two tables; one entry per result.
struct Choice {
  Value* result = nullptr;
  Instruction* short_table = nullptr;  // literals
  Instruction* long_table = nullptr;
};

class TableMerger {
 public:
  TableMerger(Program& program, const LongRopeNames& names)
      : main_(program.main()), names_(names) {}

  std::optional<LongRopeSwitch> run() {
    for (const auto& instruction : main_.instructions()) {
      const Op& op = instruction->op();
      if ((op == ops::if_ || op == ops::where) && !collect(*instruction)) return std::nullopt;
    }
    if (choices_.empty()) return std::nullopt;
    for (const Choice& choice : choices_) {
      for (const Use& use : choice.result->uses()) {
        if (!reads_by_position(use)) return std::nullopt;
      }
    }
    const std::vector<Dim>& tokens = *names_.tokens->type().dims;  // tokens or embeddings
    Value* table_rows = main_.add_parameter(Type::tensor(ElementType::i64, {tokens[0], tokens[1]}),
                                            names_.table_rows);
    for (const Choice& choice : choices_) join(choice, table_rows);
    return LongRopeSwitch{*max_short_, *first_long_};
  }

 private:
  bool is_total(const Value* value) const {
    const auto& elements = origin_of(value)->elements();
    return elements && elements->size() == 1 &&
           std::ranges::find(names_.totals, elements->front()) != names_.totals.end();
  }

  // Matches total > n and similar tests; nullopt for conditions that do not test the length.
  std::optional<Condition> condition_of(const Value* value) const {
    const Instruction* test = origin_of(value)->definition();
    if (test == nullptr || test->operands().size() != 2) return std::nullopt;
    const Op& op = test->op();
    const bool greater = op == ops::greater || op == ops::greater_or_equal;
    if (!greater && op != ops::less && op != ops::less_or_equal) return std::nullopt;
    const bool total_first = is_total(test->operands()[0]);
    if (!total_first && !is_total(test->operands()[1])) return std::nullopt;
    const auto& elements = test->operands()[total_first ? 1 : 0]->elements();
    if (!elements || elements->size() != 1 || !elements->front().is_constant()) return std::nullopt;
    const int64_t bound = *elements->front().constant();
    Condition condition;
    condition.first_is_long = greater == total_first;
    // "total > n" and "total <= n" are long from n + 1 on, the others from n on.
    const bool with_equal = op == ops::greater_or_equal || op == ops::less_or_equal;
    condition.max_short = condition.first_is_long == with_equal ? bound - 1 : bound;
    return condition;
  }

  // The literal in a branch body or outside.
  static Instruction* literal_of(const Instruction& choice, const Module* body, Value* value) {
    if (value->definition() == nullptr && body != nullptr) {
      value = choice.operands()[static_cast<size_t>(value->index()) + 1];
    }
    Instruction* definition = value->definition();
    return definition != nullptr && definition->literal() ? definition : nullptr;
  }

  // False if a choice by length does not select between two tables.
  bool collect(Instruction& instruction) {
    const std::optional<Condition> condition = condition_of(instruction.operands()[0]);
    if (!condition) return true;
    if (max_short_ && *max_short_ != condition->max_short) return false;
    max_short_ = condition->max_short;
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
    const int64_t length = *a[0].constant();
    if (length < *max_short_ || (first_long_ && *first_long_ != length)) return false;
    first_long_ = length;
    return true;
  }

  // True if the reader indexes the table by token positions.
  bool reads_by_position(const Use& use) const {
    if (use.user == nullptr) return false;
    const Op& op = use.user->op();
    const auto& operands = use.user->operands();
    const auto by_position = [&](size_t at, bool may_lack) {
      if (at >= operands.size() || operands[at] == nullptr) return may_lack;
      return names_.positions != nullptr && origin_of(operands[at]) == names_.positions &&
             operands[at]->type().rank() == 2;
    };
    if (op == ops::group_query_attention)
      return (use.index == 7 || use.index == 8) && by_position(9, true);
    if (op == ops::rotary_embedding)
      return (use.index == 1 || use.index == 2) && by_position(3, false);
    return op == ops::gather && use.index == 0 && by_position(1, false) &&
           std::get<int64_t>(*find_attribute(use.user->attributes(), "axis")) == 0;
  }

  void join(const Choice& choice, Value* table_rows) {
    Builder builder(main_, choice.result->definition());
    Value* parts[] = {builder.literal(choice.short_table->literal()),
                      builder.literal(choice.long_table->literal())};
    Value* joined = builder(ops::concat, {parts[0], parts[1]}, {{"axis", int64_t{0}}});
    while (!choice.result->uses().empty()) {
      const Use use = choice.result->uses().front();
      use.user->set_operand(use.index, joined);
      read_by_table_rows(use.user, table_rows);
    }
  }

  void read_by_table_rows(Instruction* user, Value* table_rows) {
    const size_t at = user->op() == ops::gather ? 1 : user->op() == ops::rotary_embedding ? 3 : 9;
    Builder builder(main_, user);
    builder.set_origins(user->origins());
    if (at < user->operands().size()) {
      user->set_operand(static_cast<int>(at), table_rows);
      return;
    }
    std::vector<Value*> operands = user->operands();
    operands.resize(at, nullptr);
    operands.push_back(table_rows);
    Instruction* anew = builder.add(user->op(), std::move(operands), user->attributes());
    for (int i = 0; i < static_cast<int>(user->results().size()); ++i) {
      main_.replace_uses(user->result(i), anew->result(i));
    }
    main_.erase(user);
  }

  Module& main_;
  const LongRopeNames& names_;
  std::vector<Choice> choices_;
  std::optional<int64_t> max_short_;
  std::optional<int64_t> first_long_;
};

}  // namespace

std::optional<LongRopeSwitch> merge_longrope_tables(Program& program, const LongRopeNames& names) {
  return TableMerger(program, names).run();
}

}  // namespace lathe
