// SPDX-License-Identifier: MIT
#include "llm/template/objects.h"

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

Value method(Value self, const Method& row) { return bound_method(self, row); }

Loop& loop_of(const Value& self) { return static_cast<Loop&>(self.callable()); }

Value cycle(const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) bind(arguments, "LoopContext.cycle", {}, 0);
  const std::vector<Value>& items = arguments.positional;
  if (items.empty()) raise(Exception::type, "{}", "no items for cycling given");
  const int64_t count = static_cast<int64_t>(items.size());
  const int64_t at = (loop_of(self).index0 % count + count) % count;
  return items[static_cast<size_t>(at)];
}

Value changed(const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) bind(arguments, "LoopContext.changed", {}, 0);
  Loop& loop = loop_of(self);
  const Value now = Value::tuple(arguments.positional);
  if (!loop.last_changed.is_missing() && equal(loop.last_changed, now))
    return Value::boolean(false);
  loop.last_changed = now;
  loop.interpreter.keep(Ref<Loop>(&loop));
  return Value::boolean(true);
}

constexpr Method kCycle{"cycle", cycle};
constexpr Method kChanged{"changed", changed};

}  // namespace

// Binds positional arguments, named arguments, then caller, kwargs and varargs if the body uses
// them.
Value Macro::call(Arguments& arguments) {
  const Body& body = *node.body;
  const size_t count = body.targets.size();
  std::vector<Value> parameters;
  for (size_t i = 0; i < count && i < arguments.positional.size(); ++i) {
    parameters.push_back(arguments.positional[i]);
  }
  std::vector<std::pair<std::string, Value>> named = std::move(arguments.named);
  const auto take = [&](const std::string& name) {
    for (size_t i = 0; i < named.size(); ++i) {
      if (named[i].first != name) continue;
      Value value = std::move(named[i].second);
      named.erase(named.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    return Value::missing();
  };
  while (parameters.size() < count) {
    parameters.push_back(take(body.targets[parameters.size()]->text));
  }
  Value caller = Value::missing();
  if (body.caller_slot != kNoSlot) {
    caller = take("caller");
    if (caller.is_missing() || caller.is_none()) {
      caller = undefined_hint("No caller defined", "caller");
    }
  }
  const std::string name = node.kind == Kind::macro ? repr(Value::string(node.text)) : "None";
  if (body.named_slot == kNoSlot && !named.empty()) {
    if (!take("caller").is_missing()) {
      raise(Exception::type,
            "macro {} was invoked with two values for the special caller argument. This is most "
            "likely a bug.",
            name);
    }
    raise(Exception::type, "macro {} takes no keyword argument {}", name,
          repr(Value::string(named[0].first)));
  }
  if (body.more_slot == kNoSlot && arguments.positional.size() > count) {
    raise(Exception::type, "macro {} takes not more than {} argument(s)", name, count);
  }
  const Ref<Dict> dict = make<Dict>();
  for (const auto& [key, value] : named) dict->set(key, value);
  std::vector<Value> more;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    more.push_back(arguments.positional[i]);
  }
  return interpreter.run_macro(node, outer, std::move(parameters), caller, dict,
                               Value::tuple(std::move(more)));
}

Value Macro::attribute(std::string_view name) {
  const Body& body = *node.body;
  if (name == "name") return node.kind == Kind::macro ? Value::string(node.text) : Value();
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Node* target : body.targets) names.push_back(Value::string(target->text));
    return Value::tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::boolean(body.named_slot != kNoSlot);
  if (name == "catch_varargs") return Value::boolean(body.more_slot != kNoSlot);
  if (name == "caller") return Value::boolean(body.caller_slot != kNoSlot);
  if (name == "explicit_caller") {
    for (const Node* target : body.targets) {
      if (target->text == "caller") return Value::boolean(true);
    }
    return Value::boolean(false);
  }
  return Value::missing();
}

std::string Macro::representation() const {
  return node.kind == Kind::macro ? fmt::format("<Macro {}>", repr(Value::string(node.text)))
                                  : "<Macro anonymous>";
}

Loop::Loop(Interpreter& runs, const Node& statement, const Value& items, int64_t level)
    : interpreter(runs), node(statement), source(items), cursor(items), depth0(level) {}

bool Loop::peek() {
  if (!after.is_missing()) return true;
  Value item;
  if (!cursor.next(item)) return false;
  after = std::move(item);
  return true;
}

bool Loop::advance(Value& item) {
  if (!peek()) return false;
  ++index0;
  before = std::move(current);
  current = std::move(after);
  after = Value::missing();
  item = current;
  return true;
}

int64_t Loop::length() {
  if (known_length >= 0) return known_length;
  if (templates::has_length(source)) return known_length = length_of(source);
  // An iterator without a length is read to its end.
  std::vector<Value> rest;
  Value item;
  while (cursor.next(item)) rest.push_back(item);
  known_length = static_cast<int64_t>(rest.size()) + index0 + 1 + (after.is_missing() ? 0 : 1);
  cursor = Cursor(Value::list(std::move(rest)));
  return known_length;
}

Ref<Iterator> Loop::iterate() {
  const Ref<Loop> self(this);
  return make<Iterator>([self](Value& item) { return self->advance(item); }, "LoopContext");
}

Value Loop::call(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "LoopContext.__call__", {"iterable"}, 1);
  if (!node.body->is_recursive) {
    raise(Exception::type, "The loop must have the '{}' marker to be called recursively.",
          "recursive");
  }
  return interpreter.run_loop(node, outer, values[0], depth0 + 1, {});
}

Value Loop::attribute(std::string_view name) {
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0);
  if (name == "revindex0") return Value::integer(length() - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "previtem") {
    return index0 == 0 ? undefined_hint("there is no previous item") : before;
  }
  if (name == "nextitem") return peek() ? after : undefined_hint("there is no next item");
  const Value self = Ref<Callable>(this);
  if (name == "cycle") return method(self, kCycle);
  if (name == "changed") return method(self, kChanged);
  return Value::missing();
}

std::string Loop::representation() const {
  // Python's version reads the length, too.
  Loop& self = const_cast<Loop&>(*this);
  return fmt::format("<LoopContext {}/{}>", index0 + 1, self.length());
}

Value BlockReference::call(Arguments& arguments) {
  bind(arguments, "BlockReference.__call__", {}, 0);
  return interpreter.run_block(node, context);
}

Value BlockReference::attribute(std::string_view name) {
  if (name == "name") return Value::string(node.text);
  if (name == "super") {
    return undefined_hint(
        fmt::format("there is no parent block called {}.", repr(Value::string(node.text))),
        "super");
  }
  return Value::missing();
}

Value BlockReferences::item(const Value& key) {
  const Node* block = key.is_string() ? interpreter.find_block(key.text()) : nullptr;
  if (block == nullptr) return Value::missing();
  return make_callable<BlockReference>(interpreter, *block, context);
}

}  // namespace lathe::templates
