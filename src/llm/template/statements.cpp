// SPDX-License-Identifier: MIT
// Executes statements.
#include <memory>
#include <optional>
#include <utility>

#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/interpreter.h"
#include "llm/template/objects.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {

Interpreter::Flow Interpreter::run_all(const Nodes& nodes) {
  for (const Node* node : nodes) {
    Flow flow = Flow::next;
    try {
      flow = run(*node);
    } catch (TemplateError& error) {
      if (error.line() == 0) error.set_line(static_cast<int>(node->line));
      throw;
    }
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Node& node) {
  const Level level;
  step(1);
  switch (node.kind) {
    case Kind::output:
      run_output(node);
      return Flow::next;
    case Kind::for_loop:
      return run_for(node);
    case Kind::if_statement:
      return run_if(node);
    case Kind::macro: {
      const Value macro = make_macro(node);
      slot(node.variable) = macro;
      if (node.is_exported) context_.set->set(node.text, macro);
      return Flow::next;
    }
    case Kind::call_block:
      run_call_block(node);
      return Flow::next;
    case Kind::generation:
      run_generation(node);
      return Flow::next;
    case Kind::set:
      run_set(node);
      return Flow::next;
    case Kind::set_block:
      return run_set_block(node);
    case Kind::filter_block:
      return run_filter_block(node);
    case Kind::with:
      return run_with(node);
    case Kind::autoescape:
      return run_autoescape(node);
    case Kind::block:
      print_block(node);
      return Flow::next;
    case Kind::break_loop:
      return Flow::leave_loop;
    case Kind::continue_loop:
      return Flow::next_item;
    case Kind::load_template:
      evaluate(*node.a);
      raise(Exception::type, "{}", "no loader for this environment specified");
    default:
      fail(ErrorKind::internal, "a template statement has kind {}", static_cast<int>(node.kind));
  }
}

// Writes each part at once, because later parts may read the text so far.
void Interpreter::run_output(const Node& node) {
  for (const Node* part : node.nodes) {
    try {
      print_part(*part);
    } catch (TemplateError& error) {
      if (error.line() == 0) error.set_line(static_cast<int>(part->line));
      throw;
    }
  }
}

void Interpreter::print_part(const Node& part) {
  if (part.kind == Kind::text) {
    print(part.text);
    return;
  }
  const Value value = evaluate(part);
  if (is_escaping()) {
    print(to_markup(value).text());
  } else if (value.is_string()) {
    print(value.text());
  } else {
    print(str(value));
  }
}

Interpreter::Flow Interpreter::run_if(const Node& node) {
  for (const Node* branch : node.nodes) {
    if (branch->a != nullptr && !is_true(evaluate(*branch->a))) continue;
    return run_all(branch->body->statements);
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_for(const Node& node) {
  const Value items = evaluate(*node.b);
  if (node.body->is_recursive) {
    print(run_loop(node, activation_, items, 0, {}).text());
    return Flow::next;
  }
  const Value chosen = filtered(node, items);
  if (node.body->loop_slot == kNoSlot) return run_items(node, chosen, nullptr);
  const Ref<Loop> loop = make<Loop>(*this, node, chosen, 0);
  return run_items(node, chosen, loop.get());
}

Interpreter::Flow Interpreter::run_items(const Node& node, const Value& items, Loop* loop) {
  const Body& body = *node.body;
  std::optional<Cursor> cursor;
  if (loop == nullptr) cursor.emplace(items);
  bool is_empty = true;
  Value item;
  while (loop != nullptr ? loop->advance(item) : cursor->next(item)) {
    assign(*node.a, item, false);
    if (body.loop_slot != kNoSlot) {
      activation_->slots[body.loop_slot] = Ref<Callable>(loop);
    }
    enter(body.scope);
    const Flow flow = run_all(body.statements);
    if (flow == Flow::leave_loop) {
      // `else` runs unless an iteration completed, as in Jinja's Python code.
      break;
    }
    if (flow == Flow::next) is_empty = false;
  }
  leave(body.scope);
  return is_empty ? run_otherwise(node) : Flow::next;
}

Interpreter::Flow Interpreter::run_otherwise(const Node& node) {
  const Body& body = *node.body;
  if (body.otherwise.empty()) return Flow::next;
  enter(body.otherwise_scope);
  const Flow flow = run_all(body.otherwise);
  leave(body.otherwise_scope);
  return flow;
}

// `for x in items if condition`: evaluates the condition lazily, in its own function.
Value Interpreter::filtered(const Node& node, const Value& items) {
  if (node.c == nullptr) return items;
  const Body& body = *node.body;
  Ref<Activation> outer = activation_;
  if (body.is_recursive) outer = activation_->outer;
  const Ref<Activation> inner = make<Activation>(outer, body.test_slot_count, outer->context);
  struct State {
    Cursor cursor;
    bool is_begun = false;
  };
  keep(activation_);
  keep(inner);
  const auto state = std::make_shared<State>(State{Cursor(items)});
  return make<Iterator>([this, &node, &body, inner, state](Value& item) {
    const Ref<Activation> around = std::exchange(activation_, inner);
    struct Restore {
      Interpreter& interpreter;
      const Ref<Activation>& activation;
      ~Restore() { interpreter.activation_ = activation; }
    } restore{*this, around};
    if (!state->is_begun) enter(body.test_scope);
    state->is_begun = true;
    while (state->cursor.next(item)) {
      assign(*body.test_target, item, false);
      if (!is_true(evaluate(*node.c))) continue;
      item = evaluate(*body.test_target);
      return true;
    }
    return false;
  });
}

Interpreter::Flow Interpreter::run_set_block(const Node& node) {
  enter(node.body->scope);
  Flow flow = Flow::next;
  Value value = captured_text(capture(node.body->statements, flow));
  if (flow == Flow::next) {
    if (node.b != nullptr) value = evaluate_chain(*node.b, value);
    if (is_escaping()) value = to_markup(value);
    assign(*node.a, value, node.is_exported);
  }
  leave(node.body->scope);
  return flow;
}

// Applies a chain of filters to a captured text, the value of the innermost.
Value Interpreter::evaluate_chain(const Node& node, const Value& text) {
  if (node.a == nullptr) return evaluate_function(node, &text);
  const Value value = evaluate_chain(*node.a, text);
  return evaluate_function(node, &value);
}

Interpreter::Flow Interpreter::run_filter_block(const Node& node) {
  enter(node.body->scope);
  Flow flow = Flow::next;
  const Value text = captured_text(capture(node.body->statements, flow));
  if (flow == Flow::next) print(str(evaluate_chain(*node.a, text)));
  leave(node.body->scope);
  return flow;
}

Interpreter::Flow Interpreter::run_with(const Node& node) {
  const Body& body = *node.body;
  enter(body.scope);
  for (size_t i = 0; i < body.targets.size(); ++i) {
    assign(*body.targets[i], evaluate(*body.values[i]), false);
  }
  const Flow flow = run_all(body.statements);
  leave(body.scope);
  return flow;
}

Interpreter::Flow Interpreter::run_autoescape(const Node& node) {
  enter(node.body->scope);
  Flow flow = Flow::next;
  {
    const Escaping escaping_now(is_true(evaluate(*node.a)));
    flow = run_all(node.body->statements);
  }
  leave(node.body->scope);
  return flow;
}

void Interpreter::check_namespaces(const Node& target) {
  if (target.kind == Kind::namespace_ref && !slot(target.variable).is(Type::name_space)) {
    raise(Exception::template_runtime, "{}", "cannot assign attribute on non-namespace object");
  }
  for (const Node* item : target.nodes) check_namespaces(*item);
}

void Interpreter::run_set(const Node& node) {
  check_namespaces(*node.a);
  assign(*node.a, evaluate(*node.b), node.is_exported);
}

void Interpreter::assign(const Node& target, const Value& value, bool is_exported) {
  if (target.kind == Kind::name) {
    slot(target.variable) = value;
    if (is_exported) context_.set->set(target.text, value);
    return;
  }
  if (target.kind == Kind::namespace_ref) {
    const Value space = slot(target.variable);
    if (!space.is(Type::name_space)) {
      raise(Exception::type, "'{}' object does not support item assignment", type_name(space));
    }
    space.name_space().set(target.value.text(), value);
    return;
  }
  if (!is_iterable(value)) {
    raise(Exception::type, "cannot unpack non-iterable {} object", type_name(value));
  }
  Cursor cursor(value);
  const size_t count = target.nodes.size();
  std::vector<Value> items;
  Value item;
  while (items.size() <= count && cursor.next(item)) items.push_back(item);
  if (items.size() < count) {
    raise(Exception::value, "not enough values to unpack (expected {}, got {})", count,
          items.size());
  }
  if (items.size() > count) {
    raise(Exception::value, "too many values to unpack (expected {})", count);
  }
  for (size_t i = 0; i < count; ++i) assign(*target.nodes[i], items[i], is_exported);
}

void Interpreter::run_call_block(const Node& node) {
  const Value caller = make_macro(node);
  const Value value = evaluate_call(*node.a, caller);
  print(is_escaping() ? std::string(to_markup(value).text()) : str(value));
}

// Counts only rendered text, not the text that a macro or block still collects.
void Interpreter::run_generation(const Node& node) {
  Arguments none;
  const Value text = call(make_macro(node), none);
  step_text(output_.size());
  const size_t begin = count_characters(output_);
  generations_.push_back({begin, begin + text.string().length});
  print(text.text());
}

void Interpreter::print_block(const Node& node) {
  if (node.body->is_required) {
    raise(Exception::template_runtime, "Required block {} not found",
          repr(Value::string(node.text)));
  }
  if (!node.body->is_scoped) {
    print(run_block(node, *activation_->context).text());
    return;
  }
  // The block's context: the names set around it override the template's.
  Context scoped{make<Dict>(), make<Dict>()};
  for (const auto& [key, value] : activation_->context->given->entries)
    scoped.given->set(key, value);
  for (const auto& [key, value] : activation_->context->set->entries) scoped.given->set(key, value);
  for (const auto& [name, variable] : node.body->captured) {
    const Value& value = slot(variable);
    if (!value.is_missing()) scoped.given->set(name, value);
  }
  print(run_block(node, scoped).text());
}

}  // namespace lathe::templates
