// SPDX-License-Identifier: MIT
#include "llm/template/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_error.h"
#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/operators.h"
#include "llm/template/sorting.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

constexpr size_t kMaxJsonDepth = 200;

// Builds values from parser events, in the order of the text and without recursion.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, std::string_view what) : text_(text), what_(what) {}
  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail_big(fmt::format("{}", value));
    }
    return add(Value::integer(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) fail_big(text);
    return add(Value::real(value));
  }
  bool string(std::string& value) override { return add(Value::string(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(make<Dict>()); }
  bool key(std::string& value) override {
    open_.back().key = Value::string(std::move(value));
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Value::list({})); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const bool is_number = dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr;
    fail(ErrorKind::invalid_argument, "{} is not valid JSON: {}", what_,
         is_number ? "a number is out of range" : json_error(text_, position));
  }

  Value result;

 private:
  struct Level {
    Value container;
    Value key;
  };

  [[noreturn]] void fail_big(const std::string& digits) {
    fail(ErrorKind::unsupported, "{} has the integer {}, which needs more than 64 bits", what_,
         escape(digits, 60));
  }

  bool add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().container.is(Type::dict)) {
      open_.back().container.dict().set(open_.back().key, std::move(value));
    } else {
      auto* list = static_cast<Sequence*>(open_.back().container.object());
      list->charge(2 * sizeof(Value));
      list->items.push_back(std::move(value));
    }
    return true;
  }

  bool open(Value container) {
    if (open_.size() >= kMaxJsonDepth) {
      fail(ErrorKind::invalid_argument, "{} is nested deeper than {} levels", what_, kMaxJsonDepth);
    }
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool close() {
    Value done = std::move(open_.back().container);
    open_.pop_back();
    return add(std::move(done));
  }

  std::string_view text_;
  std::string_view what_;
  std::vector<Level> open_;
};

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    const lathe::templates::Level level;
    step(1);
    if (out.size() > 4096) foresee(out.size());
    switch (value.type()) {
      case Type::none:
        out += "null";
        return;
      case Type::boolean:
        out += value.truth() ? "true" : "false";
        return;
      case Type::integer:
        out += fmt::format("{}", value.whole());
        return;
      case Type::real:
        out += number(value.number());
        return;
      case Type::string:
        return write_string(value.text());
      case Type::list:
      case Type::tuple:
        return write_list(value.items());
      case Type::dict:
        return write_dict(value.dict());
      default:
        raise(Exception::type, "Object of type {} is not JSON serializable", type_name(value));
    }
  }

  std::string out;

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_repr(value);
  }

  void write_string(std::string_view text) {
    step_text(text.size());
    out += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_character(text, at);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
      } else if (c < 0x20) {
        write_control(static_cast<char>(c));
      } else if (c < 0x80 || !style_.ascii_only) {
        out += text.substr(begin, at - begin);
      } else if (c < 0x10000) {
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
      } else {
        const auto rest = static_cast<uint32_t>(c) - 0x10000;
        out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
      }
    }
    out += '"';
  }

  void write_control(char c) {
    constexpr std::string_view kControls = "\n\r\t\f\b";
    constexpr std::string_view kLetters = "nrtfb";
    const size_t place = kControls.find(c);
    out += place == std::string_view::npos ? fmt::format("\\u{:04x}", static_cast<unsigned>(c))
                                           : std::string{'\\', kLetters[place]};
  }

  void new_line() {
    if (!style_.has_indent) return;
    step_text(style_.indent.size() * depth_);
    foresee(out.size() + style_.indent.size() * depth_);
    out += '\n';
    for (size_t i = 0; i < depth_; ++i) out += style_.indent;
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line();
      write(items[i]);
    }
    --depth_;
    new_line();
    out += ']';
  }

  std::string key_text(const Value& key) const {
    if (key.is_string()) return std::string(key.text());
    if (key.is(Type::real)) return number(key.number());
    if (key.is(Type::boolean)) return key.truth() ? "true" : "false";
    if (key.is_none()) return "null";
    if (key.is(Type::integer)) return fmt::format("{}", key.whole());
    raise(Exception::type, "keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorts_keys) {
      merge_sort(entries, [](const auto* a, const auto* b) { return less(a->first, b->first); });
    }
    out += '{';
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line();
      write_string(key_text(entries[i]->first));
      out += style_.key_separator;
      write(entries[i]->second);
    }
    --depth_;
    new_line();
    out += '}';
  }

  const JsonStyle& style_;
  size_t depth_ = 0;
};

}  // namespace

Value parse_json(std::string_view text, std::string_view what) {
  Builder builder(text, what);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.result);
}

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value);
  return std::move(writer.out);
}

Value tojson_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ascii_only = truth_argument(values[1], false);
  style.sorts_keys = truth_argument(values[4], false);
  if (!values[2].is_missing() && !values[2].is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (values[2].is_string()) {
      style.indent = values[2].text();
    } else {
      if (values[2].is_undefined()) values[2].undefined().fail();
      if (!values[2].is_integral()) {
        raise(Exception::type, "can't multiply sequence by non-int of type '{}'",
              type_name(values[2]));
      }
      const int64_t width = std::max(int64_t{0}, values[2].whole());
      foresee(static_cast<uint64_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (!values[3].is_missing() && !values[3].is_none()) {
    const std::vector<Value> separators = to_vector(values[3]);
    if (separators.size() != 2) {
      raise(Exception::value, "{} values to unpack (expected 2)",
            separators.size() < 2 ? "not enough" : "too many");
    }
    style.item_separator = text_argument(separators[0]);
    style.key_separator = text_argument(separators[1]);
  }
  return Value::string(to_json(values[0], style));
}

}  // namespace lathe::templates
