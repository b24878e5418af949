// SPDX-License-Identifier: MIT
// Filters over whole sequences and mappings.
#include <algorithm>
#include <memory>
#include <random>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/filters.h"
#include "llm/template/iterators.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

Value first(Arguments& arguments) {
  const Value value = bind(arguments, "do_first", {"seq"}, 1)[0];
  Cursor cursor(value);
  Value item;
  return cursor.next(item) ? item : undefined_hint("No first item, sequence was empty.");
}

Value last(Arguments& arguments) {
  const Value value = bind(arguments, "do_last", {"seq"}, 1)[0];
  Value item;
  return reversed(value)->next(item) ? item : undefined_hint("No last item, sequence was empty.");
}

Value random_filter(Arguments& arguments) {
  const Value value = bind(arguments, "do_random", {"seq"}, 1)[0];
  const int64_t length = length_of(value);
  if (length == 0) return undefined_hint("No random item, sequence was empty.");
  static thread_local std::minstd_rand generator{std::random_device{}()};
  const int64_t at = static_cast<int64_t>(generator() % static_cast<uint64_t>(length));
  const Value item = python_item(value, Value::integer(at));
  if (item.is_missing()) raise(Exception::key, "{}", at);
  return item;
}

Value length_filter(Arguments& arguments) {
  return Value::integer(length_of(bind_positional(arguments, "len", 1, 1)[0]));
}

Value list_filter(Arguments& arguments) {
  return Value::list(to_vector(bind(arguments, "do_list", {"value"}, 1)[0]));
}

Value reverse_filter(Arguments& arguments) {
  const Value value = bind(arguments, "do_reverse", {"value"}, 1)[0];
  if (value.is_string()) return slice(value, Value(), Value(), Value::integer(-1));
  if (is_reversible(value)) return reversed(value);
  if (!is_iterable(value)) raise(Exception::filter_argument, "{}", "argument must be iterable");
  std::vector<Value> items = to_vector(value);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value join(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_join", {"value", "d", "attribute"}, 1);
  const std::vector<Value> path = attribute_path(values[2]);
  const Value separator = values[1].is_missing() ? Value::string("") : values[1];
  std::vector<Value> parts;
  Cursor cursor(values[0]);
  Value item;
  bool is_markup = is_escaping() && separator.is_markup();
  while (cursor.next(item)) {
    parts.push_back(follow(item, path));
    is_markup = is_markup || (is_escaping() && parts.back().is_markup());
  }
  const std::string between = is_markup ? std::string(to_markup(separator).text()) : str(separator);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    step_text(between.size());
    if (i > 0) text += between;
    if (is_markup) {
      text += to_markup(parts[i]).text();
    } else {
      append_str(text, parts[i]);
    }
    if (text.size() > 4096) foresee(text.size());
  }
  return Value::string(std::move(text), is_markup);
}

Value batch(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_batch", {"value", "linecount", "fill_with"}, 2);
  const Value fill = values[2].is_missing() ? Value() : values[2];
  const Value count = values[1];
  struct State {
    Value source;
    std::optional<Cursor> cursor;
    std::vector<Value> held;
  };
  auto state = std::make_shared<State>();
  state->source = values[0];
  return make<Iterator>([state, fill, count](Value& out) {
    if (!state->cursor) state->cursor.emplace(state->source);
    Value item;
    while (state->cursor->next(item)) {
      const bool is_full = equal(Value::integer(static_cast<int64_t>(state->held.size())), count);
      std::vector<Value> batch_items;
      if (is_full) batch_items = std::exchange(state->held, {});
      state->held.push_back(item);
      if (!is_full) continue;
      out = Value::list(std::move(batch_items));
      return true;
    }
    if (state->held.empty()) return false;
    std::vector<Value> items = std::exchange(state->held, {});
    const auto size = static_cast<int64_t>(items.size());
    if (!fill.is_none() && less(Value::integer(size), count)) {
      const int64_t more = index_argument(count) - size;
      foresee(static_cast<uint64_t>(more) * sizeof(Value));
      step(static_cast<uint64_t>(more));
      items.insert(items.end(), static_cast<size_t>(more), fill);
    }
    out = Value::list(std::move(items));
    return true;
  });
}

Value slice_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_slice", {"value", "slices", "fill_with"}, 2);
  const Value source = values[0];
  const Value slices = values[1];
  const Value fill = values[2].is_missing() ? Value() : values[2];
  struct State {
    std::optional<std::vector<Value>> items;
    int64_t number = 0;
  };
  auto state = std::make_shared<State>();
  return make<Iterator>([state, source, slices, fill](Value& out) {
    if (!state->items) state->items = to_vector(source);
    const auto length = static_cast<int64_t>(state->items->size());
    const Value per = binary(Kind::floor_divide, Value::integer(length), slices);
    const int64_t count = index_argument(slices);
    if (state->number >= count) return false;
    const int64_t extra = length - per.whole() * count;
    const int64_t number = state->number++;
    const int64_t begin = number * per.whole() + std::min(number, extra);
    const int64_t end = begin + per.whole() + (number < extra ? 1 : 0);
    std::vector<Value> items(state->items->begin() + begin, state->items->begin() + end);
    if (!fill.is_none() && number >= extra) items.push_back(fill);
    out = Value::list(std::move(items));
    return true;
  });
}

Value items_filter(Arguments& arguments) {
  const Value value = bind(arguments, "do_items", {"value"}, 1)[0];
  auto at = std::make_shared<size_t>(0);
  return make<Iterator>([value, at](Value& out) {
    if (value.is_undefined()) return false;
    if (!value.is(Type::dict)) {
      raise(Exception::type, "{}", "Can only get item pairs from a mapping.");
    }
    const auto& entries = value.dict().entries;
    if (*at >= entries.size()) return false;
    out = Value::tuple({entries[*at].first, entries[*at].second});
    ++*at;
    return true;
  });
}

Value sum_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_sum", {"iterable", "attribute", "start"}, 1);
  const std::vector<Value> path = attribute_path(values[1]);
  Value total = values[2].is_missing() ? Value::integer(0) : values[2];
  Cursor cursor(values[0]);
  if (total.is_string()) {
    raise(Exception::type, "sum() can't sum strings [use {} instead]", "''.join(seq)");
  }
  Value item;
  while (cursor.next(item)) total = binary(Kind::add, total, follow(item, path));
  return total;
}

Value attr_filter(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_attr", {"obj", "name"}, 2);
  if (!values[1].is_string()) {
    raise(Exception::type, "attribute name must be string, not '{}'", type_name(values[1]));
  }
  const Value value = python_attribute(values[0], values[1].text());
  return value.is_missing() ? undefined_member(values[0], values[1]) : value;
}

constexpr FunctionRow kSequenceFilters[] = {
    {"first", first},
    {"last", last},
    {"random", random_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"list", list_filter},
    {"reverse", reverse_filter},
    {"join", join},
    {"batch", batch},
    {"slice", slice_filter},
    {"items", items_filter},
    {"sum", sum_filter},
    {"attr", attr_filter},
};

}  // namespace

std::span<const FunctionRow> sequence_filters() { return kSequenceFilters; }

}  // namespace lathe::templates
