// SPDX-License-Identifier: MIT
#include "llm/template/globals.h"

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/interpreter.h"
#include "llm/template/objects.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

struct GlobalFunction : Callable {
  GlobalFunction(std::string_view python_name, Value (*body)(Arguments&))
      : name(python_name), function(body) {}
  Value call(Arguments& arguments) override { return function(arguments); }
  std::string_view type_name() const override { return "function"; }
  std::string representation() const override { return fmt::format("<function {}>", name); }
  const std::string_view name;
  Value (*function)(Arguments&);
};

constexpr int64_t kMaxRange = 100000;

Value make_range(Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "range", 1, 3);
  for (const Value& value : values) {
    if (!value.is_missing()) index_argument(value);
  }
  const Ref<Range> range = make<Range>();
  const bool has_stop = !values[1].is_missing();
  range->start = has_stop ? values[0].whole() : 0;
  range->stop = has_stop ? values[1].whole() : values[0].whole();
  range->step = integer_argument(values[2], 1);
  if (range->step == 0) raise(Exception::value, "{}", "range() arg 3 must not be zero");
  constexpr int64_t kFar = int64_t{1} << 61;
  const bool is_far = range->start > kFar || range->start < -kFar || range->stop > kFar ||
                      range->stop < -kFar || range->step < -kFar;
  if (is_far || range->length() > kMaxRange) {
    raise(Exception::overflow,
          "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return range;
}

// dict(mapping or pairs, **named)
Ref<Dict> dict_of(Arguments& arguments, std::string_view function) {
  if (arguments.positional.size() > 1) {
    raise(Exception::type, "{} expected at most 1 argument, got {}", function,
          arguments.positional.size());
  }
  const Ref<Dict> dict = make<Dict>();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Type::dict)) {
      for (const auto& [key, value] : source.dict().entries) dict->set(key, value);
    } else {
      if (source.is_undefined()) source.undefined().fail();
      Cursor cursor(source);
      Value pair;
      for (size_t i = 0; cursor.next(pair); ++i) {
        if (!is_iterable(pair)) {
          raise(Exception::type,
                "cannot convert dictionary update sequence element #{} to a sequence", i);
        }
        const std::vector<Value> parts = to_vector(pair);
        if (parts.size() != 2) {
          raise(Exception::value,
                "dictionary update sequence element #{} has length {}; 2 is required", i,
                parts.size());
        }
        dict->set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(name, value);
  return dict;
}

Value dict_from_keys(const Value&, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "fromkeys", 1, 2);
  const Ref<Dict> dict = make<Dict>();
  Cursor cursor(values[0]);
  Value key;
  while (cursor.next(key)) dict->set(key, values[1].is_missing() ? Value() : values[1]);
  return dict;
}
constexpr Method kFromKeys{"fromkeys", dict_from_keys};

struct DictFunction : Callable {
  Value call(Arguments& arguments) override { return dict_of(arguments, "dict"); }
  Value attribute(std::string_view name) override {
    if (name != "fromkeys") return Value::missing();
    return bound_method(Ref<Callable>(this), kFromKeys);
  }
  std::string_view type_name() const override { return "TemplateDict"; }
};

struct NamespaceFunction : Callable {
  explicit NamespaceFunction(Interpreter& runs) : interpreter(runs) {}
  Value call(Arguments& arguments) override {
    const Ref<Dict> attributes = dict_of(arguments, "dict");
    const Ref<Namespace> space = make<Namespace>();
    space->attributes = make<Dict>();
    interpreter.keep(space);
    for (const auto& [name, value] : attributes->entries) {
      if (name.is_string()) {
        space->set(name.text(), value);
      } else {
        space->attributes->set(name, value);
      }
    }
    return space;
  }
  std::string_view type_name() const override { return "type"; }
  Interpreter& interpreter;
};

struct Cycler : Callable {
  explicit Cycler(std::vector<Value> values) : items(std::move(values)) {}
  std::string_view type_name() const override { return "Cycler"; }
  bool is_callable() const override { return false; }
  Value attribute(std::string_view name) override;
  const std::vector<Value> items;
  size_t at = 0;
};

Value cycler_next(const Value& self, Arguments& arguments) {
  bind(arguments, "Cycler.next", {}, 0);
  auto& cycler = static_cast<Cycler&>(self.callable());
  const Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}

Value cycler_reset(const Value& self, Arguments& arguments) {
  bind(arguments, "Cycler.reset", {}, 0);
  static_cast<Cycler&>(self.callable()).at = 0;
  return {};
}

constexpr Method kNext{"next", cycler_next};
constexpr Method kReset{"reset", cycler_reset};

Value Cycler::attribute(std::string_view name) {
  if (name == "current") return items[at];
  if (name == "items") return Value::tuple(items);
  if (name == "pos") return Value::integer(static_cast<int64_t>(at));
  if (name == "next") return bound_method(Ref<Callable>(this), kNext);
  if (name == "reset") return bound_method(Ref<Callable>(this), kReset);
  return Value::missing();
}

Value make_cycler(Arguments& arguments) {
  if (!arguments.named.empty()) bind(arguments, "Cycler.__init__", {}, 0);
  if (arguments.positional.empty()) {
    raise(Exception::runtime, "{}", "at least one item has to be provided");
  }
  return make_callable<Cycler>(arguments.positional);
}

struct Joiner : Callable {
  explicit Joiner(Value between) : separator(std::move(between)) {}
  Value call(Arguments& arguments) override {
    bind(arguments, "Joiner.__call__", {}, 0);
    if (std::exchange(is_used, true)) return separator;
    return Value::string("");
  }
  Value attribute(std::string_view name) override {
    if (name == "sep") return separator;
    return name == "used" ? Value::boolean(is_used) : Value::missing();
  }
  std::string_view type_name() const override { return "Joiner"; }
  const Value separator;
  bool is_used = false;
};

Value make_joiner(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "Joiner.__init__", {"sep"}, 0);
  return make_callable<Joiner>(values[0].is_missing() ? Value::string(", ") : values[0]);
}

Value raise_exception(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "raise_exception", {"message"}, 1);
  raise_text(Exception::template_error, str(values[0]));
}

Value strftime_now_function(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "strftime_now", {"format"}, 1);
  return Value::string(strftime_now(text_argument(values[0])));
}

Value lipsum(Arguments&) {
  raise(Exception::unsupported, "{}", "lipsum() is not supported: its text is random");
}

}  // namespace

Ref<Dict> make_globals(Interpreter& interpreter) {
  const Ref<Dict> globals = make<Dict>();
  const auto add = [&](std::string_view name, Value (*function)(Arguments&)) {
    globals->set(name, make_callable<GlobalFunction>(name, function));
  };
  add("range", make_range);
  globals->set("dict", make_callable<DictFunction>());
  add("lipsum", lipsum);
  add("cycler", make_cycler);
  add("joiner", make_joiner);
  globals->set("namespace", make_callable<NamespaceFunction>(interpreter));
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now_function);
  return globals;
}

}  // namespace lathe::templates
