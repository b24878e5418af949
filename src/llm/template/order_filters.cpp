// SPDX-License-Identifier: MIT
// Filters that compare items: sort, unique, min, max, groupby and dictsort.
#include <algorithm>
#include <memory>
#include <optional>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/operators.h"
#include "llm/template/sorting.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"

namespace lathe::templates {
namespace {

Value without_case(const Value& value, bool is_case_sensitive) {
  if (is_case_sensitive || !value.is_string()) return value;
  return Value::string(lower(value.text()));
}

// Sorts by key; stable, also in reverse.
std::vector<size_t> sorted_by(const std::vector<Value>& keys, bool is_reversed) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  merge_sort(order, [&](size_t a, size_t b) {
    return is_reversed ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
  });
  return order;
}

std::vector<std::vector<Value>> paths_of(const Value& attribute) {
  if (!attribute.is_string()) return {attribute_path(attribute)};
  std::vector<std::vector<Value>> paths;
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t comma = rest.find(',');
    paths.push_back(attribute_path(Value::string(std::string(rest.substr(0, comma)))));
    if (comma == std::string_view::npos) return paths;
    rest.remove_prefix(comma + 1);
  }
}

Value sort_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool is_case_sensitive = truth_argument(values[2], false);
  const auto paths = paths_of(values[3]);
  const std::vector<Value> items = to_vector(values[0]);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const auto& path : paths) {
      parts.push_back(without_case(follow(item, path), is_case_sensitive));
    }
    keys.push_back(Value::list(std::move(parts)));
  }
  std::vector<Value> out;
  for (const size_t at : sorted_by(keys, truth_argument(values[1], false))) {
    out.push_back(items[at]);
  }
  return Value::list(std::move(out));
}

Value unique(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_unique", {"value", "case_sensitive", "attribute"}, 1);
  struct State {
    Value source;
    std::optional<Cursor> cursor;
    Ref<Dict> seen;
  };
  auto state = std::make_shared<State>(State{values[0], {}, make<Dict>()});
  return make<Iterator>([state, path = attribute_path(values[2]),
                         is_case_sensitive = truth_argument(values[1], false)](Value& out) {
    if (!state->cursor) state->cursor.emplace(state->source);
    Value item;
    while (state->cursor->next(item)) {
      const Value key = without_case(follow(item, path), is_case_sensitive);
      if (state->seen->find(key) != nullptr) continue;
      state->seen->set(key, Value());
      out = item;
      return true;
    }
    return false;
  });
}

Value extreme(Arguments& arguments, std::string_view name, bool wants_largest) {
  const std::vector<Value> values =
      bind(arguments, name, {"value", "case_sensitive", "attribute"}, 1);
  const bool is_case_sensitive = truth_argument(values[1], false);
  const std::vector<Value> path = attribute_path(values[2]);
  Cursor cursor(values[0]);
  Value item;
  if (!cursor.next(item)) return undefined_hint("No aggregated item, sequence was empty.");
  Value best = item;
  Value best_key = without_case(follow(item, path), is_case_sensitive);
  while (cursor.next(item)) {
    const Value key = without_case(follow(item, path), is_case_sensitive);
    if (!compare(wants_largest ? Comparison::gt : Comparison::lt, key, best_key)) continue;
    best = item;
    best_key = key;
  }
  return best;
}
Value min_filter(Arguments& arguments) { return extreme(arguments, "do_min", false); }
Value max_filter(Arguments& arguments) { return extreme(arguments, "do_max", true); }

Value group_key(const Value& item, const std::vector<Value>& path, const Value& otherwise) {
  Value value = item;
  for (const Value& part : path) {
    value = get_item(value, part);
    if (value.is_undefined() && !otherwise.is_missing() && !otherwise.is_none()) value = otherwise;
  }
  return value;
}

Value groupby(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  const std::vector<Value> path = attribute_path(values[1]);
  const bool is_case_sensitive = truth_argument(values[3], false);
  const std::vector<Value> items = to_vector(values[0]);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(without_case(group_key(item, path, values[2]), is_case_sensitive));
  }
  std::vector<Value> groups;
  const std::vector<size_t> order = sorted_by(keys, false);
  for (size_t i = 0; i < order.size();) {
    const size_t first = order[i];
    std::vector<Value> members;
    for (; i < order.size() && equal(keys[order[i]], keys[first]); ++i) {
      members.push_back(items[order[i]]);
    }
    const Ref<Sequence> group =
        make<Sequence>(std::vector<Value>{group_key(items[first], path, values[2]),
                                          Value::list(std::move(members))},
                       true);
    group->is_tuple = true;
    groups.push_back(group);
  }
  return Value::list(std::move(groups));
}

Value dictsort(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  const bool is_case_sensitive = truth_argument(values[1], false);
  const std::string by = values[2].is_missing() ? "key" : str(values[2]);
  if (by != "key" && by != "value") {
    raise(Exception::filter_argument, "{}", "You can only sort by either \"key\" or \"value\"");
  }
  if (values[0].is_undefined()) values[0].undefined().fail();
  if (!values[0].is(Type::dict)) {
    raise(Exception::attribute, "'{}' object has no attribute 'items'", type_name(values[0]));
  }
  const auto& entries = values[0].dict().entries;
  std::vector<Value> keys;
  for (const auto& [key, value] : entries) {
    keys.push_back(without_case(by == "key" ? key : value, is_case_sensitive));
  }
  std::vector<Value> out;
  for (const size_t at : sorted_by(keys, truth_argument(values[3], false))) {
    out.push_back(Value::tuple({entries[at].first, entries[at].second}));
  }
  return Value::list(std::move(out));
}

constexpr FunctionRow kRows[] = {
    {"sort", sort_filter}, {"unique", unique},   {"min", min_filter},
    {"max", max_filter},   {"groupby", groupby}, {"dictsort", dictsort},
};

}  // namespace

std::span<const FunctionRow> order_filters() { return kRows; }

}  // namespace lathe::templates
