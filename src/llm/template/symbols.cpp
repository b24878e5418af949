// SPDX-License-Identifier: MIT
#include "llm/template/symbols.h"

#include <algorithm>

#include "llm/template/budget.h"

namespace lathe::templates {

const Symbols::Place* Symbols::find(const std::string& name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->outer_) {
    const auto found = scope->places_.find(name);
    if (found != scope->places_.end()) return &found->second;
  }
  return nullptr;
}

void Symbols::set_load(uint32_t slot, Load load) {
  step(1 + loads_.size() / 16);
  for (auto& [known, how] : loads_) {
    if (known == slot) {
      how = std::move(load);
      return;
    }
  }
  loads_.emplace_back(slot, std::move(load));
}

void Symbols::define(const std::string& name, Load load) {
  const uint32_t slot = function_->slot(level_, name);
  places_[name] = Place{function_, slot};
  set_load(slot, std::move(load));
}

void Symbols::load(const std::string& name) {
  if (find(name) == nullptr) define(name, {How::resolve, name});
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (places_.contains(name)) return;
  const Place* outer = outer_ == nullptr ? nullptr : outer_->find(name);
  if (outer != nullptr) {
    define(name, {How::alias, name, *outer});
  } else {
    define(name, {How::clear, name});
  }
}

uint32_t Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  define(name, {How::parameter, name});
  return places_.at(name).slot;
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) {
    step(1 + 4 * branch.places_.size());
    for (const std::string& name : branch.stores_) {
      if (!stores_.contains(name)) stored.insert(name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, place] : branch.places_) places_[name] = place;
    for (const auto& [slot, load] : branch.loads_) set_load(slot, load);
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stored) {
    const Place* outer = outer_ == nullptr ? nullptr : outer_->find(name);
    const uint32_t slot = find(name)->slot;
    if (outer != nullptr) {
      set_load(slot, {How::alias, name, *outer});
    } else {
      set_load(slot, {How::resolve, name});
    }
  }
}

Variable Symbols::relative(const Place& place, const FunctionScope* from) {
  return {from->depth - place.function->depth, place.slot};
}

Variable Symbols::variable(const std::string& name, const FunctionScope* from) const {
  const Place* place = find(name);
  check(place != nullptr, ErrorKind::internal, "the name '{}' of a template has no variable",
        escape(name));
  return relative(*place, from);
}

Scope Symbols::scope() const {
  Scope scope;
  for (const auto& [slot, load] : loads_) {
    scope.slots.push_back(slot);
    if (load.how == How::resolve) {
      scope.loads.push_back({Scope::Load::Kind::resolve, slot, {}, load.name});
    } else if (load.how == How::alias) {
      scope.loads.push_back({Scope::Load::Kind::alias, slot, relative(load.source, function_), {}});
    } else if (load.how == How::clear) {
      scope.loads.push_back({Scope::Load::Kind::clear, slot, {}, {}});
    }
  }
  return scope;
}

std::map<std::string, Variable> Symbols::stored(const FunctionScope* from) const {
  std::map<std::string, Variable> all;
  for (const Symbols* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const std::string& name : scope->stores_) {
      if (!all.contains(name)) all[name] = variable(name, from);
    }
  }
  return all;
}

void append_children(const Node& node, Nodes& children) {
  const auto add = [&](Node* child) {
    if (child != nullptr) children.push_back(child);
  };
  const auto add_all = [&](const Nodes& nodes) {
    children.insert(children.end(), nodes.begin(), nodes.end());
  };
  const Body* body = node.body.get();
  switch (node.kind) {
    case Kind::block:
      return;
    case Kind::for_loop:
      add(node.a);
      add(node.b);
      add_all(body->statements);
      add_all(body->otherwise);
      add(node.c);
      return;
    case Kind::filter_block:
      add_all(body->statements);
      add(node.a);
      return;
    default:
      break;
  }
  add(node.a);
  add(node.b);
  add(node.c);
  add_all(node.nodes);
  if (node.arguments) {
    add_all(node.arguments->positional);
    for (const auto& named : node.arguments->named) add(named.second);
    add(node.arguments->more_positional);
    add(node.arguments->more_named);
  }
  if (body != nullptr) {
    add_all(body->targets);
    add_all(body->values);
    add_all(body->statements);
  }
}

std::set<std::string> find_undeclared(const Nodes& nodes, std::set<std::string> names) {
  std::set<std::string> found;
  Nodes waiting(nodes.rbegin(), nodes.rend());
  while (!waiting.empty() && !names.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    step(1);
    if (node->kind == Kind::name) {
      if (!node->is_stored && names.contains(node->text)) {
        found.insert(node->text);
        if (found == names) break;
      } else {
        names.erase(node->text);
      }
      continue;
    }
    Nodes children;
    append_children(*node, children);
    waiting.insert(waiting.end(), children.rbegin(), children.rend());
  }
  return found;
}

namespace {

void collect_one(const Node& node, Symbols& symbols);

void collect_children(const Node& node, Symbols& symbols) {
  Nodes children;
  append_children(node, children);
  for (const Node* child : children) collect_one(*child, symbols);
}

// The first condition is outside of the branches; later ones are in "elif".
void collect_if(const Node& node, Symbols& symbols) {
  collect_one(*node.nodes[0]->a, symbols);
  std::vector<Symbols> branches;
  Symbols first = symbols;
  collect(node.nodes[0]->body->statements, first);
  branches.push_back(std::move(first));
  Symbols elifs = symbols;
  Symbols otherwise = symbols;
  for (size_t i = 1; i < node.nodes.size(); ++i) {
    const Node& branch = *node.nodes[i];
    if (branch.a == nullptr) {
      collect(branch.body->statements, otherwise);
      continue;
    }
    collect_one(*branch.a, elifs);
    Symbols inner = elifs;
    collect(branch.body->statements, inner);
    elifs.merge({inner});
  }
  branches.push_back(std::move(elifs));
  branches.push_back(std::move(otherwise));
  symbols.merge(branches);
}

void collect_one(const Node& node, Symbols& symbols) {
  const Level level;
  step(1);
  switch (node.kind) {
    case Kind::name:
      if (node.is_parameter) {
        symbols.declare_parameter(node.text);
      } else if (node.is_stored) {
        symbols.store(node.text);
      } else {
        symbols.load(node.text);
      }
      return;
    case Kind::namespace_ref:
      symbols.load(node.text);
      return;
    case Kind::if_statement:
      collect_if(node, symbols);
      return;
    case Kind::macro:
      symbols.store(node.text);
      return;
    case Kind::set:
      collect_one(*node.b, symbols);
      collect_one(*node.a, symbols);
      return;
    case Kind::set_block:
      collect_one(*node.a, symbols);
      return;
    case Kind::for_loop:
      collect_one(*node.b, symbols);
      return;
    case Kind::call_block:
    case Kind::filter_block:
      collect_one(*node.a, symbols);
      return;
    case Kind::with:
      for (const Node* value : node.body->values) collect_one(*value, symbols);
      return;
    case Kind::generation:
    case Kind::autoescape:
    case Kind::block:
      return;
    default:
      collect_children(node, symbols);
  }
}

}  // namespace

void collect(const Nodes& nodes, Symbols& symbols) {
  for (const Node* node : nodes) collect_one(*node, symbols);
}

}  // namespace lathe::templates
