// SPDX-License-Identifier: MIT
// Rewrite rules as values: a table of entries "name, pattern, replacement".
//
//   const Pattern x = value("x");
//   const RuleTable rules({
//       {"multiply_by_one", x * constant(1), x},
//       {"transpose_twice", op(ops::transpose, {op(ops::transpose, {x}).named("inner")}),
//        join_transposes},
//   });
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/program.h"

namespace lathe {

// A pattern of a value and the instructions that compute it. Cheap to copy.
class Pattern {
 public:
  struct Node;
  explicit Pattern(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  // A copy that binds the matched value to `name`, a string literal that outlives the table.
  Pattern named(std::string_view name) const;
  const Node& node() const { return *node_; }

 private:
  std::shared_ptr<const Node> node_;
};

// Any value; two uses of one name must match the same value.
Pattern value(std::string_view name);
// Any literal that sessions cannot bind.
Pattern literal(std::string_view name);
// A numeric literal whose elements all have the bits of this number: 0 is not -0.
Pattern constant(double number);
// The first result of an op with one result. Listed attributes must be equal, others are free;
// operands of commutative ops match in either order.
Pattern op(const Op& op, std::vector<Pattern> operands, Attributes attributes = {});
Pattern operator+(const Pattern& a, const Pattern& b);  // add
Pattern operator-(const Pattern& a, const Pattern& b);  // sub
Pattern operator*(const Pattern& a, const Pattern& b);  // mul
Pattern operator/(const Pattern& a, const Pattern& b);  // div

// A match of a pattern, and the builder of its replacement.
class Match {
 public:
  Match(Instruction& root, Builder& builder) : b(builder), root_(&root) {}
  // Matches against the root and binds the pattern's names.
  bool fits(const Pattern& pattern);

  Builder& b;  // inserts before the root, with its origins
  Instruction& root() const { return *root_; }
  Value* operator[](std::string_view name) const;  // Internal error for an unbound name
  const Type& type(std::string_view name) const { return (*this)[name]->type(); }
  Instruction& instruction(std::string_view name) const { return *(*this)[name]->definition(); }

 private:
  friend class Matcher;
  Instruction* root_;
  std::vector<std::pair<std::string_view, Value*>> bound_;
};

// The op at a pattern's root; null if the root is not an op.
const Op* root_op(const Pattern& pattern);

// One rule. The replacement is a pattern of bound values, or a function that returns the new value.
// A function returns null if the rule does not apply.
struct Rule {
  using Replace = std::function<Value*(Match& match)>;
  using Condition = std::function<bool(const Match& match)>;

  Rule(std::string_view rule_name, Pattern before, Replace after,
       std::source_location at = std::source_location::current());
  Rule(std::string_view rule_name, Pattern before, const Pattern& after, Condition condition = {},
       std::source_location at = std::source_location::current());

  std::string_view name;
  Pattern pattern;
  Replace replace;
  std::source_location place;
};

// Rules indexed by the op at their root; the first match in table order applies.
class RuleTable {
 public:
  explicit RuleTable(std::vector<Rule> rules);

  // Rewrites every module until no rule applies; true if any did. A replacement must have the
  // root's type. Instructions without users are left to the runner's cleanup.
  bool apply(Program& program) const;
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  bool apply(Module& module, int64_t& budget) const;
  // The replacement of the root's result, or null.
  Value* rewrite(Instruction& root, const Rule*& applied) const;

  std::vector<Rule> rules_;
  std::unordered_map<const Op*, std::vector<size_t>> by_root_;
};

// While it exists, its function is called on this thread after every applied rule.
class RuleWatch {
 public:
  using Function = std::function<void(const Rule& rule, const Program& program)>;
  explicit RuleWatch(Function function);
  ~RuleWatch();
  RuleWatch(const RuleWatch&) = delete;
  RuleWatch& operator=(const RuleWatch&) = delete;

 private:
  friend class RuleTable;
  Function function_;
  RuleWatch* outer_;
};

}  // namespace lathe
