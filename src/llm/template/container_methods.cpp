// SPDX-License-Identifier: MIT
// Methods of list, tuple, dict, its views and range. Mutating methods have a null function.
#include <algorithm>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

Value count(const Value& self, Arguments& arguments) {
  const Value item = bind_positional(arguments, "count", 1, 1)[0];
  int64_t found = 0;
  Cursor cursor(self);
  Value candidate;
  while (cursor.next(candidate)) found += equal(candidate, item);
  return Value::integer(found);
}

Value index(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "index", 1, 3);
  const int64_t length = length_of(self);
  const auto place = [&](const Value& value, int64_t otherwise) {
    const int64_t at = integer_argument(value, otherwise);
    return at < 0 ? std::max(int64_t{0}, at + length) : std::min(at, length);
  };
  const int64_t end = place(values[2], length);
  for (int64_t at = place(values[1], 0); at < end; ++at) {
    if (equal(python_item(self, Value::integer(at)), values[0])) return Value::integer(at);
  }
  if (self.is(Type::tuple)) raise(Exception::value, "{}", "tuple.index(x): x not in tuple");
  raise(Exception::value, "{} is not in {}", repr(values[0]),
        self.is(Type::list) ? "list" : "range");
}

Value copy_list(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "copy", 0, 0);
  return Value::list(self.items());
}

Value view(const Value& self, Arguments& arguments, DictView::Kind kind, std::string_view name) {
  bind_positional(arguments, name, 0, 0);
  const Ref<DictView> out = make<DictView>();
  out->of = &self.dict();
  out->kind = kind;
  return out;
}
Value keys(const Value& self, Arguments& arguments) {
  return view(self, arguments, DictView::Kind::keys, "dict.keys");
}
Value values_method(const Value& self, Arguments& arguments) {
  return view(self, arguments, DictView::Kind::values, "dict.values");
}
Value items(const Value& self, Arguments& arguments) {
  return view(self, arguments, DictView::Kind::items, "dict.items");
}

Value get(const Value& self, Arguments& arguments) {
  const std::vector<Value> given = bind_positional(arguments, "get", 1, 2);
  const Value* found = self.dict().find(given[0]);
  if (found != nullptr) return *found;
  return given[1].is_missing() ? Value() : given[1];
}

Value copy_dict(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "copy", 0, 0);
  const Ref<Dict> out = make<Dict>();
  for (const auto& [key, value] : self.dict().entries) out->set(key, value);
  return out;
}

Value from_keys(const Value&, Arguments& arguments) {
  const std::vector<Value> given = bind_positional(arguments, "fromkeys", 1, 2);
  const Ref<Dict> out = make<Dict>();
  Cursor cursor(given[0]);
  Value key;
  while (cursor.next(key)) out->set(key, given[1].is_missing() ? Value() : given[1]);
  return out;
}

Value is_disjoint(const Value& self, Arguments& arguments) {
  const Value other = bind_positional(arguments, "isdisjoint", 1, 1)[0];
  Cursor cursor(other);
  Value item;
  while (cursor.next(item)) {
    if (contains(self, item)) return Value::boolean(false);
  }
  return Value::boolean(true);
}

constexpr Method kListMethods[] = {
    {"count", count},    {"index", index},     {"copy", copy_list}, {"append", nullptr},
    {"clear", nullptr},  {"extend", nullptr},  {"insert", nullptr}, {"pop", nullptr},
    {"remove", nullptr}, {"reverse", nullptr}, {"sort", nullptr},
};
constexpr Method kTupleMethods[] = {{"count", count}, {"index", index}};
constexpr Method kDictMethods[] = {
    {"get", get},         {"items", items},        {"keys", keys},      {"values", values_method},
    {"copy", copy_dict},  {"fromkeys", from_keys}, {"clear", nullptr},  {"pop", nullptr},
    {"popitem", nullptr}, {"setdefault", nullptr}, {"update", nullptr},
};
constexpr Method kViewMethods[] = {{"isdisjoint", is_disjoint}};

}  // namespace

std::span<const Method> list_methods() { return kListMethods; }
std::span<const Method> tuple_methods() { return kTupleMethods; }
std::span<const Method> dict_methods() { return kDictMethods; }
std::span<const Method> range_methods() { return kTupleMethods; }
std::span<const Method> view_methods() { return kViewMethods; }

}  // namespace lathe::templates
