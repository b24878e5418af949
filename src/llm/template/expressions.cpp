// SPDX-License-Identifier: MIT
// Evaluates expressions.
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/filters.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/tests.h"
#include "llm/template/text.h"

namespace lathe::templates {

Value Interpreter::evaluate(const Node& node) {
  const Level level;
  step(1);
  switch (node.kind) {
    case Kind::constant:
      return node.value;
    case Kind::name:
      return evaluate_name(node);
    case Kind::tuple:
    case Kind::list:
      return evaluate_sequence(node);
    case Kind::dict:
      return evaluate_dict(node);
    case Kind::negative:
    case Kind::positive:
      return unary(node.kind, evaluate(*node.a));
    case Kind::logical_not:
      return Value::boolean(!is_true(evaluate(*node.a)));
    case Kind::add:
    case Kind::subtract:
    case Kind::multiply:
    case Kind::divide:
    case Kind::floor_divide:
    case Kind::modulo:
    case Kind::power: {
      const Value left = evaluate(*node.a);
      return binary(node.kind, left, evaluate(*node.b));
    }
    case Kind::logical_and:
    case Kind::logical_or: {
      Value left = evaluate(*node.a);
      return is_true(left) == (node.kind == Kind::logical_and) ? evaluate(*node.b) : left;
    }
    case Kind::compare:
      return evaluate_compare(node);
    case Kind::concat:
      return evaluate_concat(node);
    case Kind::attribute:
      return get_attribute(evaluate(*node.a), node.text);
    case Kind::item:
      return evaluate_item(node);
    case Kind::filter:
    case Kind::test:
      return evaluate_function(node, nullptr);
    case Kind::conditional:
      if (is_true(evaluate(*node.a))) return evaluate(*node.b);
      if (node.c != nullptr) return evaluate(*node.c);
      return undefined_hint(
          fmt::format("the inline if-expression on line {} evaluated to false "
                      "and no else section was defined.",
                      node.line));
    case Kind::call:
      return evaluate_call(node, Value::missing());
    case Kind::slice:
      raise(Exception::python_syntax, "{}", "invalid syntax");
    default:
      fail(ErrorKind::internal, "a template expression has kind {}", static_cast<int>(node.kind));
  }
}

Value Interpreter::evaluate_name(const Node& node) {
  const Value& value = slot(node.variable);
  return value.is_missing() ? undefined_name(node.text) : value;
}

Value Interpreter::evaluate_sequence(const Node& node) {
  std::vector<Value> items;
  items.reserve(node.nodes.size());
  for (const Node* item : node.nodes) items.push_back(evaluate(*item));
  return node.kind == Kind::list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value Interpreter::evaluate_dict(const Node& node) {
  const Ref<Dict> dict = make<Dict>();
  for (size_t i = 0; i + 1 < node.nodes.size(); i += 2) {
    const Value key = evaluate(*node.nodes[i]);
    dict->set(key, evaluate(*node.nodes[i + 1]));
  }
  return dict;
}

// a < b < c is true if both comparisons are; each operand is evaluated once.
Value Interpreter::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.nodes[0]);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.nodes[i + 1]);
    if (!compare(node.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Node& node) {
  std::vector<Value> parts;
  bool is_markup = false;
  for (const Node* part : node.nodes) {
    parts.push_back(evaluate(*part));
    is_markup = is_markup || (is_escaping() && parts.back().is_markup());
  }
  std::string text;
  for (const Value& part : parts) {
    if (is_markup) {
      text += to_markup(part).text();
    } else {
      append_str(text, part);
    }
    foresee(text.size());
  }
  return Value::string(std::move(text), is_markup);
}

Value Interpreter::evaluate_item(const Node& node) {
  const Value object = evaluate(*node.a);
  if (node.b->kind != Kind::slice) return get_item(object, evaluate(*node.b));
  const auto part = [&](const Node* expression) {
    return expression == nullptr ? Value() : evaluate(*expression);
  };
  const Value start = part(node.b->a);
  const Value stop = part(node.b->b);
  return slice(object, start, stop, part(node.b->c));
}

void Interpreter::evaluate_arguments(const CallArguments& in, Arguments& out) {
  for (const Node* value : in.positional) out.positional.push_back(evaluate(*value));
  const Value more = in.more_positional == nullptr ? Value() : evaluate(*in.more_positional);
  for (const auto& [name, value] : in.named) out.named.emplace_back(name, evaluate(*value));
  if (in.more_positional != nullptr) {
    if (!is_iterable(more)) {
      raise(Exception::type, "argument after * must be an iterable, not {}", type_name(more));
    }
    for (Value& value : to_vector(more)) out.positional.push_back(std::move(value));
  }
  if (in.more_named == nullptr) return;
  const Value named = evaluate(*in.more_named);
  if (named.is_undefined()) named.undefined().fail();
  if (!named.is(Type::dict)) {
    raise(Exception::type, "argument after ** must be a mapping, not {}", type_name(named));
  }
  for (const auto& [key, value] : named.dict().entries) {
    if (!key.is_string()) raise(Exception::type, "{} must be strings", "keywords");
    for (const auto& [name, given] : out.named) {
      if (name == key.text()) {
        raise(Exception::type, "got multiple values for keyword argument '{}'", name);
      }
    }
    out.named.emplace_back(std::string(key.text()), value);
  }
}

Value Interpreter::evaluate_call(const Node& node, const Value& caller) {
  const Value callee = evaluate(*node.a);
  Arguments arguments;
  evaluate_arguments(*node.arguments, arguments);
  if (!caller.is_missing()) arguments.named.emplace_back("caller", caller);
  return templates::call(callee, arguments);
}

Value Interpreter::evaluate_function(const Node& node, const Value* input) {
  Arguments arguments;
  arguments.positional.push_back(input != nullptr ? *input : evaluate(*node.a));
  evaluate_arguments(*node.arguments, arguments);
  const bool is_filter = node.kind == Kind::filter;
  const Function function = is_filter ? find_filter(node.text) : find_test(node.text);
  if (function == nullptr) {
    if (is_filter) check_implemented(node.text);
    raise(Exception::template_runtime, "No {} named '{}' found.", is_filter ? "filter" : "test",
          node.text);
  }
  return function(arguments);
}

}  // namespace lathe::templates
