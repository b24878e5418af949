// SPDX-License-Identifier: MIT
#include "llm/template/resolve.h"

#include <memory>
#include <set>

#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/lexer.h"
#include "llm/template/symbols.h"
#include "llm/template/tests.h"

namespace lathe::templates {
namespace {

struct Frame {
  Symbols* symbols;
  FunctionScope* function;
  bool is_top_level = false;
  bool is_soft = false;  // under a condition: unknown filters fail at run time
  bool is_in_loop = false;
};

[[noreturn]] void fail_assertion(std::string text, uint32_t line) {
  raise_syntax(std::move(text), line, Exception::template_assertion);
}

class Resolver {
 public:
  explicit Resolver(Template& parsed) : parsed_(parsed) {}

  void run() {
    check_blocks();
    FunctionScope function;
    Symbols symbols(&function, nullptr);
    if (find_undeclared(parsed_.body, {"self"}).contains("self")) {
      parsed_.self_slot = symbols.declare_parameter("self");
    }
    collect(parsed_.body, symbols);
    resolve_all(parsed_.body, {&symbols, &function, true});
    parsed_.scope = symbols.scope();
    parsed_.slot_count = slots(function);
    for (Node* block : parsed_.blocks) resolve_block_body(*block);
  }

 private:
  static uint32_t slots(const FunctionScope& function) {
    return static_cast<uint32_t>(function.slots.size());
  }

  void check_blocks() {
    std::set<std::string> names;
    for (const Node* block : parsed_.blocks) {
      if (!names.insert(block->text).second) {
        fail_assertion(fmt::format("block '{}' defined twice", block->text), block->line);
      }
    }
  }

  // A block is a function that reads the context, not the enclosing variables.
  void resolve_block_body(Node& node) {
    Body& body = *node.body;
    FunctionScope function;
    Symbols symbols(&function, nullptr);
    const auto undeclared = find_undeclared(body.statements, {"self", "super"});
    if (undeclared.contains("self")) body.self_slot = symbols.declare_parameter("self");
    if (undeclared.contains("super")) body.super_slot = symbols.declare_parameter("super");
    collect(body.statements, symbols);
    resolve_all(body.statements, {&symbols, &function});
    body.scope = symbols.scope();
    body.slot_count = slots(function);
  }

  void resolve_all(const Nodes& nodes, const Frame& frame) {
    for (Node* node : nodes) resolve(*node, frame);
  }

  void resolve(Node& node, const Frame& frame) {
    const Level level;
    step(1);
    switch (node.kind) {
      case Kind::name:
      case Kind::namespace_ref:
        node.variable = frame.symbols->variable(node.text, frame.function);
        return;
      case Kind::for_loop:
        return resolve_for(node, frame);
      case Kind::if_statement:
        return resolve_if(node, frame);
      case Kind::macro:
        node.variable = frame.symbols->variable(node.text, frame.function);
        node.is_exported = is_exported(frame);
        return resolve_macro(node, frame);
      case Kind::call_block:
        resolve_macro(node, frame);
        return resolve(*node.a, frame);
      case Kind::generation:
        return resolve_macro(node, frame);
      case Kind::set:
        node.is_exported = is_exported(frame);
        resolve(*node.b, frame);
        return resolve(*node.a, frame);
      case Kind::set_block:
      case Kind::filter_block:
        return resolve_captured(node, frame);
      case Kind::with:
      case Kind::autoescape:
        return resolve_scope(node, frame);
      case Kind::block:
        return resolve_block(node, frame);
      case Kind::conditional:
      case Kind::filter:
      case Kind::test:
      case Kind::call:
        return resolve_expression(node, frame);
      case Kind::break_loop:
      case Kind::continue_loop:
        if (!frame.is_in_loop) {
          raise_syntax(node.kind == Kind::break_loop ? "'break' outside loop"
                                                     : "'continue' not properly in loop",
                       node.line, Exception::python_syntax);
        }
        return;
      case Kind::load_template:
        if (node.text == "extends" && !frame.is_top_level) {
          fail_assertion("cannot use extend from a non top-level scope", node.line);
        }
        [[fallthrough]];
      default: {
        Nodes children;
        append_children(node, children);
        resolve_all(children, frame);
      }
    }
  }

  bool is_exported(const Frame& frame) const {
    return frame.is_top_level && !parsed_.blocks.empty();
  }

  static void check_filter(const Node& node) {
    try {
      check_implemented(node.text);
    } catch (TemplateError& error) {
      error.set_line(static_cast<int>(node.line));
      throw;
    }
  }

  void resolve_expression(Node& node, const Frame& outer) {
    Frame frame = outer;
    if (node.kind == Kind::conditional) frame.is_soft = true;
    if (node.kind == Kind::filter || node.kind == Kind::test) {
      const bool is_filter = node.kind == Kind::filter;
      const bool is_known =
          is_filter ? find_filter(node.text) != nullptr : find_test(node.text) != nullptr;
      node.is_soft = frame.is_soft;
      if (!is_known && !frame.is_soft) {
        if (is_filter) check_filter(node);
        fail_assertion(fmt::format("No {} named '{}'.", is_filter ? "filter" : "test", node.text),
                       node.line);
      }
    }
    if (node.arguments) {
      std::set<std::string> names;
      for (const auto& [name, value] : node.arguments->named) {
        if (!names.insert(name).second) {
          raise_syntax("keyword argument repeated: " + name, node.line, Exception::python_syntax);
        }
      }
    }
    Nodes children;
    append_children(node, children);
    resolve_all(children, frame);
  }

  void resolve_if(Node& node, const Frame& outer) {
    Frame frame = outer;
    frame.is_soft = true;
    for (Node* branch : node.nodes) {
      if (branch->a != nullptr) resolve(*branch->a, frame);
      resolve_all(branch->body->statements, frame);
    }
  }

  void resolve_for(Node& node, const Frame& frame) {
    Body& body = *node.body;
    check_loop_name(node);
    FunctionScope own{frame.function, frame.function->depth + 1, {}};
    FunctionScope* function = body.is_recursive ? &own : frame.function;
    Symbols inner(function, frame.symbols);
    Symbols otherwise(function, frame.symbols);
    if (body.is_recursive || uses_loop(body.statements)) {
      body.loop_slot = inner.declare_parameter("loop");
    }
    declare_targets(*node.a, inner);
    collect(body.statements, inner);
    collect(body.otherwise, otherwise);
    if (node.c != nullptr) resolve_test(node, frame);
    resolve(*node.a, {&inner, function});
    resolve(*node.b, frame);
    resolve_all(body.statements, {&inner, function, false, false, true});
    resolve_all(body.otherwise,
                {&otherwise, function, false, false, !body.is_recursive && frame.is_in_loop});
    body.scope = inner.scope();
    body.otherwise_scope = otherwise.scope();
    body.slot_count = slots(own);
  }

  // A loop's condition is a function of the items, with its own targets.
  void resolve_test(Node& node, const Frame& frame) {
    Body& body = *node.body;
    FunctionScope function{frame.function, frame.function->depth + 1, {}};
    Symbols symbols(&function, frame.symbols);
    body.test_target = copy_target(*node.a);
    declare_targets(*body.test_target, symbols);
    collect({node.c}, symbols);
    const Frame inner{&symbols, &function};
    resolve(*body.test_target, inner);
    resolve(*node.c, inner);
    body.test_scope = symbols.scope();
    body.test_slot_count = slots(function);
  }

  Node* copy_target(const Node& target) {
    parsed_.nodes.push_back(std::make_unique<Node>());
    Node* copy = parsed_.nodes.back().get();
    copy->kind = target.kind;
    copy->line = target.line;
    copy->text = target.text;
    copy->is_stored = true;
    for (const Node* item : target.nodes) copy->nodes.push_back(copy_target(*item));
    return copy;
  }

  static void declare_targets(const Node& target, Symbols& symbols) {
    if (target.kind == Kind::name) symbols.declare_parameter(target.text);
    for (const Node* item : target.nodes) declare_targets(*item, symbols);
  }

  static bool uses_loop(const Nodes& statements) {
    if (find_undeclared(statements, {"loop"}).contains("loop")) return true;
    Nodes waiting = statements;
    while (!waiting.empty()) {
      const Node* node = waiting.back();
      waiting.pop_back();
      if (node->kind == Kind::block && node->body->is_scoped) return true;
      append_children(*node, waiting);
    }
    return false;
  }

  static void check_loop_name(Node& loop) {
    Nodes waiting{&loop};
    while (!waiting.empty()) {
      const Node* node = waiting.back();
      waiting.pop_back();
      step(1);
      if (node->kind == Kind::name && node->is_stored && !node->is_parameter &&
          node->text == "loop") {
        fail_assertion("Can't assign to special loop variable in for-loop target", node->line);
      }
      append_children(*node, waiting);
    }
  }

  void resolve_macro(Node& node, const Frame& outer) {
    Body& body = *node.body;
    FunctionScope function{outer.function, outer.function->depth + 1, {}};
    Symbols symbols(&function, outer.symbols);
    std::set<std::string> names;
    for (const Node* target : body.targets) {
      if (!names.insert(target->text).second) {
        raise_syntax(fmt::format("duplicate argument '{}' in function definition", target->text),
                     node.line, Exception::python_syntax);
      }
    }
    collect(body.targets, symbols);
    collect(body.values, symbols);
    collect(body.statements, symbols);
    const auto undeclared = find_undeclared(body.statements, {"caller", "kwargs", "varargs"});
    const auto position = [&](std::string_view name) {
      size_t i = 0;
      while (i < body.targets.size() && body.targets[i]->text != name) ++i;
      return i;
    };
    if (undeclared.contains("caller")) {
      const size_t at = position("caller");
      if (at == body.targets.size()) {
        body.caller_slot = symbols.declare_parameter("caller");
      } else if (at + body.values.size() < body.targets.size()) {
        fail_assertion(
            "When defining macros or call blocks the special \"caller\" argument must be omitted "
            "or be given a default.",
            node.line);
      }
    }
    const auto declare = [&](const char* name, uint32_t& slot) {
      if (undeclared.contains(name) && position(name) == body.targets.size()) {
        slot = symbols.declare_parameter(name);
      }
    };
    declare("kwargs", body.named_slot);
    declare("varargs", body.more_slot);
    const Frame frame{&symbols, &function};
    resolve_all(body.targets, frame);
    resolve_all(body.values, frame);
    for (const Node* target : body.targets) body.parameter_slots.push_back(target->variable.slot);
    resolve_all(body.statements, frame);
    body.scope = symbols.scope();
    body.slot_count = slots(function);
  }

  // The body renders to a string, which a filter may change.
  void resolve_captured(Node& node, const Frame& frame) {
    Body& body = *node.body;
    Symbols symbols(frame.function, frame.symbols);
    const bool is_filter = node.kind == Kind::filter_block;
    collect(body.statements, symbols);
    if (is_filter) collect({node.a}, symbols);
    const Frame inner{&symbols, frame.function, false, false, frame.is_in_loop};
    resolve_all(body.statements, inner);
    if (is_filter) {
      resolve(*node.a, inner);
    } else {
      node.is_exported = is_exported(frame);
      resolve(*node.a, frame);
      // A set block's filter is not among the collected names, as in Jinja.
      if (node.b != nullptr) {
        collect({node.b}, symbols);
        resolve(*node.b, inner);
      }
    }
    body.scope = symbols.scope();
  }

  void resolve_scope(Node& node, const Frame& frame) {
    Body& body = *node.body;
    Symbols symbols(frame.function, frame.symbols);
    if (node.a != nullptr) collect({node.a}, symbols);
    collect(body.targets, symbols);
    collect(body.statements, symbols);
    const Frame inner{&symbols, frame.function, false, false, frame.is_in_loop};
    if (node.a != nullptr) resolve(*node.a, inner);
    resolve_all(body.values, frame);
    resolve_all(body.targets, inner);
    resolve_all(body.statements, inner);
    body.scope = symbols.scope();
  }

  void resolve_block(Node& node, const Frame& frame) {
    if (!node.body->is_scoped) return;
    for (auto& [name, variable] : frame.symbols->stored(frame.function)) {
      node.body->captured.emplace_back(name, variable);
    }
  }

  Template& parsed_;
};

}  // namespace

void resolve_names(Template& parsed) { Resolver(parsed).run(); }

}  // namespace lathe::templates
