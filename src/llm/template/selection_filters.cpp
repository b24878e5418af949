// SPDX-License-Identifier: MIT
// The lazy filters map, select, reject, selectattr and rejectattr.
#include <memory>
#include <optional>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/tests.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

using Mapping = std::function<Value(const Value&)>;

std::vector<Value> rest_of(const std::vector<Value>& values, size_t from) {
  return {values.begin() + static_cast<ptrdiff_t>(std::min(from, values.size())), values.end()};
}

Mapping mapping_of(const Arguments& given) {
  std::vector<Value> positional = rest_of(given.positional, 1);
  auto named = given.named;
  const auto take = [&](std::string_view name) {
    for (size_t i = 0; i < named.size(); ++i) {
      if (named[i].first != name) continue;
      Value value = named[i].second;
      named.erase(named.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    return Value::missing();
  };
  if (positional.empty()) {
    const Value attribute = take("attribute");
    if (!attribute.is_missing()) {
      const Value otherwise = take("default");
      if (!named.empty()) {
        raise(Exception::filter_argument, "Unexpected keyword argument {}",
              repr(Value::string(named[0].first)));
      }
      return [path = attribute_path(attribute), otherwise](const Value& item) {
        Value value = item;
        for (const Value& part : path) {
          value = get_item(value, part);
          const bool has_default = !otherwise.is_missing() && !otherwise.is_none();
          if (has_default && value.is_undefined()) value = otherwise;
        }
        return value;
      };
    }
    raise(Exception::filter_argument, "{}", "map requires a filter argument");
  }
  const Value name = positional[0];
  return [name, more = rest_of(positional, 1), named](const Value& item) {
    Arguments arguments{{item}, named};
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
    return call_filter(name, arguments);
  };
}

// Tests an item, or its attribute.
Mapping test_of(const Arguments& given, bool has_attribute) {
  const std::vector<Value> positional = rest_of(given.positional, 1);
  std::vector<Value> path;
  if (has_attribute) {
    if (positional.empty()) {
      raise(Exception::filter_argument, "{}", "Missing parameter for attribute name");
    }
    path = attribute_path(positional[0]);
  }
  const size_t offset = has_attribute ? 1 : 0;
  if (positional.size() <= offset) {
    return [path](const Value& item) { return Value::boolean(is_true(follow(item, path))); };
  }
  const Value name = positional[offset];
  return
      [path, name, more = rest_of(positional, offset + 1), named = given.named](const Value& item) {
        Arguments arguments{{follow(item, path)}, named};
        arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
        return call_test(name, arguments);
      };
}

struct State {
  Arguments given;
  std::optional<Cursor> cursor;
  Mapping mapping;

  // A generator binds its arguments when the first item is read.
  bool begin(Mapping (*make_mapping)(const Arguments&)) {
    if (cursor) return true;
    if (given.positional.empty() || !is_true(given.positional[0])) return false;
    mapping = make_mapping(given);
    cursor.emplace(given.positional[0]);
    return true;
  }
};

Value map_filter(Arguments& arguments) {
  auto state = std::make_shared<State>(State{std::move(arguments), {}, {}});
  return make<Iterator>([state](Value& out) {
    Value item;
    if (!state->begin(mapping_of) || !state->cursor->next(item)) return false;
    out = state->mapping(item);
    return true;
  });
}

template <bool keeps, bool has_attribute>
Value choose(Arguments& arguments) {
  auto state = std::make_shared<State>(State{std::move(arguments), {}, {}});
  return make<Iterator>([state](Value& out) {
    const auto make_test = [](const Arguments& given) { return test_of(given, has_attribute); };
    if (!state->begin(make_test)) return false;
    Value item;
    while (state->cursor->next(item)) {
      if (is_true(state->mapping(item)) != keeps) continue;
      out = item;
      return true;
    }
    return false;
  });
}

constexpr FunctionRow kRows[] = {
    {"map", map_filter},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
};

}  // namespace

std::span<const FunctionRow> selection_filters() { return kRows; }

}  // namespace lathe::templates
