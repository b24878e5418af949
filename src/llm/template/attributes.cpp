// SPDX-License-Identifier: MIT
#include "llm/template/attributes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "llm/template/budget.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// Attributes of every Python object, container or function. The sandbox hides names with a leading
// underscore.
constexpr std::array<std::string_view, 25> kObjectNames{
    "__class__",  "__delattr__",   "__dir__",          "__doc__",
    "__eq__",     "__format__",    "__ge__",           "__getattribute__",
    "__gt__",     "__hash__",      "__init__",         "__init_subclass__",
    "__le__",     "__lt__",        "__ne__",           "__new__",
    "__reduce__", "__reduce_ex__", "__repr__",         "__setattr__",
    "__sizeof__", "__str__",       "__subclasshook__", "__getstate__",
    "__module__"};
constexpr std::array<std::string_view, 9> kContainerNames{
    "__add__", "__contains__", "__getitem__", "__iter__",      "__len__",
    "__mul__", "__rmul__",     "__mod__",     "__getnewargs__"};
constexpr std::array<std::string_view, 8> kUndefinedNames{"__call__", "__getitem__", "__len__",
                                                          "__iter__", "__bool__",    "__add__",
                                                          "__int__",  "__getattr__"};
constexpr std::array<std::string_view, 11> kFunctionNames{
    "__name__",     "__call__",       "__globals__",  "__code__", "__closure__", "__dict__",
    "__defaults__", "__kwdefaults__", "__qualname__", "__self__", "__func__"};

template <size_t N>
bool is_in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_hidden(const Value& object, std::string_view name) {
  if (object.is(Type::name_space)) return name == "__class__" || name == "_Namespace__attrs";
  if (object.is_undefined() && (name.starts_with("_undefined_") || is_in(kUndefinedNames, name))) {
    return true;
  }
  if (is_in(kObjectNames, name)) return name != "__module__" || object.is(Type::callable);
  if (object.is(Type::callable)) return is_in(kFunctionNames, name);
  return !object.is_number() && !object.is_none() && is_in(kContainerNames, name);
}

Value hidden(const Value& object, std::string_view name) {
  const Value value =
      undefined_hint(fmt::format("access to attribute {} of '{}' object is unsafe.",
                                 repr(Value::string(std::string(name))), type_name(object)),
                     name);
  static_cast<Undefined*>(value.object())->exception = Exception::security;
  return value;
}

struct BoundMethod : Callable {
  BoundMethod(Value object, const Method& row) : self(std::move(object)), method(row) {}
  Value call(Arguments& arguments) override { return method.function(self, arguments); }
  std::string representation() const override {
    return fmt::format("<built-in method {} of {} object>", method.name,
                       templates::type_name(self));
  }
  const Value self;
  const Method& method;
};

Value find_method(const Value& object, std::span<const Method> methods, std::string_view name) {
  for (const Method& method : methods) {
    if (method.name != name) continue;
    if (method.function == nullptr) return hidden(object, name);
    return bound_method(object, method);
  }
  return Value::missing();
}

Value number_attribute(const Value& object, std::string_view name) {
  const bool is_real = object.is(Type::real);
  if (name == "real") return is_real ? object : Value::integer(object.whole());
  if (name == "imag") return is_real ? Value::real(0) : Value::integer(0);
  if (!is_real && name == "numerator") return Value::integer(object.whole());
  if (!is_real && name == "denominator") return Value::integer(1);
  return find_method(object, is_real ? real_methods() : integer_methods(), name);
}

Value range_attribute(const Value& object, std::string_view name) {
  const Range& range = object.range();
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  return find_method(object, range_methods(), name);
}

Value tuple_attribute(const Value& object, std::string_view name) {
  if (static_cast<Sequence*>(object.object())->group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  return find_method(object, tuple_methods(), name);
}

Value visible_attribute(const Value& object, std::string_view name) {
  switch (object.type()) {
    case Type::boolean:
    case Type::integer:
    case Type::real:
      return number_attribute(object, name);
    case Type::string: {
      Value value = find_method(object, string_methods(), name);
      return value.is_missing() ? find_method(object, string_search_methods(), name) : value;
    }
    case Type::list:
      return find_method(object, list_methods(), name);
    case Type::tuple:
      return tuple_attribute(object, name);
    case Type::dict:
      return find_method(object, dict_methods(), name);
    case Type::range:
      return range_attribute(object, name);
    case Type::dict_view:
      return find_method(object, view_methods(), name);
    case Type::name_space: {
      const Value* value = object.name_space().attributes->find(name);
      return value == nullptr ? Value::missing() : *value;
    }
    case Type::callable:
      return object.callable().attribute(name);
    default:
      return Value::missing();
  }
}

Value sequence_item(const Value& object, const Value& key) {
  if (!key.is_integral()) return Value::missing();
  const int64_t length = length_of(object);
  int64_t at = key.whole();
  if (at < 0) at += length;
  if (at < 0 || at >= length) return Value::missing();
  if (object.is_sequence()) return object.items()[static_cast<size_t>(at)];
  if (object.is(Type::range)) {
    return Value::integer(object.range().start + at * object.range().step);
  }
  const String& string = object.string();
  step_text(string.is_ascii() ? 0 : string.text.size());
  const auto begin = static_cast<size_t>(at);
  return Value::string(std::string(substring(string.text, string.length, begin, begin + 1)),
                       string.markup);
}

bool is_hashable(const Value& value) {
  if (value.is(Type::list) || value.is(Type::dict)) return false;
  if (value.is(Type::dict_view)) return value.view().kind == DictView::Kind::values;
  if (!value.is(Type::tuple)) return true;
  const Level level;
  return std::all_of(value.items().begin(), value.items().end(), is_hashable);
}

}  // namespace

Value bound_method(const Value& self, const Method& method) {
  return Ref<Callable>(make<BoundMethod>(self, method).get());
}

Value python_attribute(const Value& object, std::string_view name) {
  if (name.starts_with('_'))
    return has_hidden(object, name) ? hidden(object, name) : Value::missing();
  if (object.is_undefined()) object.undefined().fail();
  return visible_attribute(object, name);
}

Value python_item(const Value& object, const Value& key) {
  switch (object.type()) {
    case Type::undefined:
      object.undefined().fail();
    case Type::string:
    case Type::list:
    case Type::tuple:
    case Type::range:
      return sequence_item(object, key);
    case Type::dict: {
      if (!is_hashable(key)) return Value::missing();
      const Value* value = object.dict().find(key);
      return value == nullptr ? Value::missing() : *value;
    }
    case Type::callable:
      return object.callable().item(key);
    default:
      return Value::missing();
  }
}

Value get_attribute(const Value& object, std::string_view name) {
  Value value = python_attribute(object, name);
  if (!value.is_missing()) return value;
  if (object.is(Type::dict)) {
    const Value* item = object.dict().find(name);
    if (item != nullptr) return *item;
  }
  const Value key = Value::string(std::string(name));
  value = python_item(object, key);
  return value.is_missing() ? undefined_member(object, key) : value;
}

Value get_item(const Value& object, const Value& key) {
  Value value = python_item(object, key);
  if (value.is_missing() && key.is_string()) value = python_attribute(object, key.text());
  return value.is_missing() ? undefined_member(object, key) : value;
}

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is(Type::callable) && value.callable().is_callable());
}

Value call(const Value& callable, Arguments& arguments) {
  const Level level;
  step(1);
  if (callable.is_undefined()) callable.undefined().fail();
  if (!callable.is(Type::callable)) {
    raise(Exception::type, "'{}' object is not callable", type_name(callable));
  }
  const Ref<Callable> held(&callable.callable());
  return held->call(arguments);
}

std::vector<Value> attribute_path(const Value& attribute) {
  if (attribute.is_none() || attribute.is_missing()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> path;
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    bool is_number = !part.empty();
    for (size_t at = 0; at < part.size();) {
      if (!is_digit(next_character(part, at))) is_number = false;
    }
    path.push_back(is_number ? Value::integer(parse_integer(part).value_or(0))
                             : Value::string(std::string(part)));
    if (dot == std::string_view::npos) return path;
    rest.remove_prefix(dot + 1);
  }
}

Value follow(const Value& object, const std::vector<Value>& path) {
  Value value = object;
  for (const Value& part : path) value = get_item(value, part);
  return value;
}

}  // namespace lathe::templates
