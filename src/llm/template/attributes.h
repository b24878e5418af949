// SPDX-License-Identifier: MIT
// object.name and object[key] by the rules of Jinja's immutable sandbox.
#pragma once

#include <span>
#include <string_view>

#include "llm/template/value.h"

namespace lathe::templates {

Value get_attribute(const Value& object, std::string_view name);  // the attribute comes first
Value get_item(const Value& object, const Value& key);            // the item comes first
// Python's getattr(): missing for an unknown name, undefined for names hidden by the sandbox.
Value python_attribute(const Value& object, std::string_view name);
// object[key], or missing.
Value python_item(const Value& object, const Value& key);
Value call(const Value& callable, Arguments& arguments);
bool is_callable(const Value& value);

// The `attribute` argument of filters, "a.0.b": names and indices.
std::vector<Value> attribute_path(const Value& attribute);
Value follow(const Value& object, const std::vector<Value>& path);

// Methods of Python's types. The function is null if the sandbox hides the method because it
// changes the object.
struct Method {
  std::string_view name;
  Value (*function)(const Value& self, Arguments& arguments);
};
std::span<const Method> string_methods();
std::span<const Method> string_search_methods();
std::span<const Method> list_methods();
std::span<const Method> tuple_methods();
std::span<const Method> dict_methods();
std::span<const Method> integer_methods();
std::span<const Method> real_methods();
std::span<const Method> range_methods();
std::span<const Method> view_methods();

Value bound_method(const Value& self, const Method& method);

}  // namespace lathe::templates
