// SPDX-License-Identifier: MIT
// The names of one scope of a template and their variables.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "llm/template/ast.h"

namespace lathe::templates {

// A function with its own variables: the template, a block, a macro, a recursive loop or a loop's
// condition.
struct FunctionScope {
  const FunctionScope* outer = nullptr;
  uint32_t depth = 0;
  std::map<std::pair<int, std::string>, uint32_t> slots;  // by level and name

  uint32_t slot(int level, const std::string& name) {
    return slots.emplace(std::pair(level, name), static_cast<uint32_t>(slots.size())).first->second;
  }
};

class Symbols {
 public:
  Symbols(FunctionScope* function, const Symbols* outer)
      : function_(function), outer_(outer), level_(outer == nullptr ? 0 : outer->level_ + 1) {}

  // Record the scope's uses of a name, in order.
  void load(const std::string& name);
  void store(const std::string& name);
  uint32_t declare_parameter(const std::string& name);
  // Merges alternative branches, which started as copies of this scope.
  void merge(const std::vector<Symbols>& branches);

  // The variable relative to `from`, which is this scope's function or an inner one.
  Variable variable(const std::string& name, const FunctionScope* from) const;
  Scope scope() const;
  // All names stored in this scope and the outer ones.
  std::map<std::string, Variable> stored(const FunctionScope* from) const;
  FunctionScope* function() const { return function_; }

 private:
  struct Place {
    const FunctionScope* function;
    uint32_t slot;
  };
  enum class How { parameter, resolve, alias, clear };
  struct Load {
    How how;
    std::string name;
    Place source{};
  };

  const Place* find(const std::string& name) const;
  void define(const std::string& name, Load load);
  void set_load(uint32_t slot, Load load);
  static Variable relative(const Place& place, const FunctionScope* from);

  FunctionScope* function_;
  const Symbols* outer_;
  int level_;
  std::map<std::string, Place> places_;
  std::vector<std::pair<uint32_t, Load>> loads_;
  std::set<std::string> stores_;
};

// The names that these nodes read before they store them.
std::set<std::string> find_undeclared(const Nodes& nodes, std::set<std::string> names);
// Appends a node's children in the order of Jinja's fields, without bodies of blocks.
void append_children(const Node& node, Nodes& children);
// Records the reads and stores of all statements of a scope.
void collect(const Nodes& nodes, Symbols& symbols);

}  // namespace lathe::templates
