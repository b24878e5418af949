// SPDX-License-Identifier: MIT
#include "llm/template/percent_format.h"

#include <algorithm>
#include <cmath>

#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/numbers.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 31;

struct Directive {
  bool is_left = false;
  bool has_plus = false;
  bool has_space = false;
  bool is_alternate = false;
  bool has_zero = false;
  int64_t width = -1;
  int64_t precision = -1;
  char kind = 's';
};

class PercentFormat {
 public:
  PercentFormat(const Value& format, const Value& values)
      : text_(format.text()), is_markup_(format.is_markup()), values_(values) {
    is_mapping_ = values.is(Type::dict) || values.is(Type::list) || values.is(Type::range) ||
                  values.is_undefined();
  }

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '%') {
        const size_t end = std::min(text_.find('%', at_), text_.size());
        out_ += text_.substr(at_, end - at_);
        at_ = end;
        continue;
      }
      ++at_;
      convert();
      if (out_.size() > 4096) foresee(out_.size());
    }
    const bool has_more = values_.is(Type::tuple) ? next_ < values_.items().size() : next_ == 0;
    if (has_more && !is_mapping_ && !values_.is(Type::missing)) {
      raise(Exception::type, "{}", "not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  char peek() {
    if (at_ >= text_.size()) raise(Exception::value, "{}", "incomplete format");
    return text_[at_];
  }

  Value argument() {
    if (named_) {
      Value value = *named_;
      named_.reset();
      return value;
    }
    if (values_.is(Type::tuple)) {
      if (next_ < values_.items().size()) return values_.items()[next_++];
    } else if (next_ == 0) {
      ++next_;
      return values_;
    }
    raise(Exception::type, "{}", "not enough arguments for format string");
  }

  void read_name() {
    if (peek() != '(') return;
    if (!is_mapping_) raise(Exception::type, "{}", "format requires a mapping");
    int open = 1;
    const size_t begin = ++at_;
    while (open > 0 && at_ < text_.size()) {
      open += text_[at_] == '(';
      open -= text_[at_] == ')';
      ++at_;
    }
    if (open > 0) raise(Exception::value, "{}", "incomplete format key");
    const Value key = Value::string(std::string(text_.substr(begin, at_ - 1 - begin)));
    const Value value = python_item(values_, key);
    if (value.is_missing()) {
      if (!values_.is(Type::dict)) {
        raise(Exception::type, "{} indices must be integers or slices, not str",
              type_name(values_));
      }
      raise_text(Exception::key, repr(key));
    }
    named_ = value;
  }

  int64_t read_number() {
    if (peek() == '*') {
      ++at_;
      const Value value = argument();
      if (!value.is_integral()) raise(Exception::type, "{}", "* requires an int");
      if (std::abs(value.whole()) > kMaxWidth)
        raise(Exception::overflow, "width or precision too {}", "big");
      return value.whole();
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (text_[at_++] - '0');
      if (number > kMaxWidth) raise(Exception::value, "width or precision too {}", "big");
    }
    return number;
  }

  Directive read_directive() {
    Directive directive;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-')
        directive.is_left = true;
      else if (c == '+')
        directive.has_plus = true;
      else if (c == ' ')
        directive.has_space = true;
      else if (c == '#')
        directive.is_alternate = true;
      else if (c == '0')
        directive.has_zero = true;
      else
        break;
    }
    const char c = peek();
    if (c == '*' || (c >= '0' && c <= '9')) {
      directive.width = read_number();
      if (directive.width < 0) {
        directive.is_left = true;
        directive.width = -directive.width;
      }
    }
    if (peek() == '.') {
      ++at_;
      directive.precision = std::max(int64_t{0}, read_number());
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    directive.kind = peek();
    return directive;
  }

  void convert() {
    if (peek() == '%') {
      out_ += '%';
      ++at_;
      return;
    }
    read_name();
    const Directive directive = read_directive();
    const size_t place = at_++;
    if (directive.kind == '%') {
      out_ += '%';
      return;
    }
    if (std::string_view("srdiuoxXeEfFgGca").find(directive.kind) == std::string_view::npos) {
      size_t end = place;
      const char32_t c = next_character(text_, end);
      raise(Exception::value, "unsupported format character '{}' (0x{:x}) at index {}",
            c > 31 && c < 127 ? std::string(1, static_cast<char>(c)) : "?",
            static_cast<uint32_t>(c), count_characters(text_.substr(0, place)));
    }
    const Value value = argument();
    switch (directive.kind) {
      case 's':
        return add_text(directive, is_markup_ ? std::string(to_markup(value).text()) : str(value));
      case 'r':
        return add_text(directive, is_markup_ ? escape_html(repr(value)) : repr(value));
      case 'a':
        return add_text(directive, is_markup_ ? escape_html(ascii(value)) : ascii(value));
      case 'c':
        return add_text(directive, character(value));
      default:
        return add_number(directive, number(directive, value));
    }
  }

  static std::string character(const Value& value) {
    if (value.is_string() && value.string().length == 1) return std::string(value.text());
    if (!value.is_integral()) raise(Exception::type, "%c requires {} or char", "int");
    if (value.whole() < 0 || value.whole() > 0x10ffff) {
      raise(Exception::overflow, "%c arg not in range({})", "0x110000");
    }
    std::string text;
    append_character(text, static_cast<char32_t>(value.whole()));
    return text;
  }

  static int64_t whole(const Directive& directive, const Value& value) {
    if (value.is_undefined()) value.undefined().fail();
    if (value.is_integral()) return value.whole();
    const bool takes_real = std::string_view("diu").find(directive.kind) != std::string_view::npos;
    if (takes_real && value.is(Type::real)) {
      if (!std::isfinite(value.number())) {
        raise(std::isnan(value.number()) ? Exception::value : Exception::overflow,
              "cannot convert float {} to integer", float_repr(value.number()));
      }
      return truncated(value.number());
    }
    raise(Exception::type, "%{} format: {} is required, not {}", directive.kind,
          takes_real ? "a real number" : "an integer", type_name(value));
  }

  // Includes the sign.
  static std::string number(const Directive& directive, const Value& value) {
    const char kind = directive.kind;
    if (std::string_view("eEfFgG").find(kind) != std::string_view::npos) {
      if (value.is_undefined()) value.undefined().fail();
      if (!value.is_number()) {
        raise(Exception::type, "must be real number, not {}", type_name(value));
      }
      const int64_t precision = directive.precision < 0 ? 6 : directive.precision;
      foresee(static_cast<uint64_t>(precision) + 400);
      step_text(static_cast<size_t>(precision));
      return format_float(value.number(), kind, static_cast<int>(precision),
                          directive.is_alternate);
    }
    const int64_t integer = whole(directive, value);
    const uint64_t size =
        integer < 0 ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
    std::string digits = kind == 'o'   ? fmt::format("{:o}", size)
                         : kind == 'x' ? fmt::format("{:x}", size)
                         : kind == 'X' ? fmt::format("{:X}", size)
                                       : fmt::format("{}", size);
    const auto least = static_cast<uint64_t>(std::max(int64_t{0}, directive.precision));
    foresee(least);
    step_text(least);
    if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
    if (directive.is_alternate && (kind == 'o' || kind == 'x' || kind == 'X')) {
      digits.insert(0, std::string("0") + kind);
    }
    return integer < 0 ? "-" + digits : digits;
  }

  void fill(char c, int64_t count) {
    if (count <= 0) return;
    foresee(out_.size() + static_cast<uint64_t>(count));
    step_text(static_cast<size_t>(count));
    out_.append(static_cast<size_t>(count), c);
  }

  void add_text(const Directive& directive, std::string text) {
    size_t length = count_characters(text);
    if (directive.precision >= 0 && directive.kind != 'c' &&
        static_cast<size_t>(directive.precision) < length) {
      length = static_cast<size_t>(directive.precision);
      text.resize(byte_of_character(text, length));
    }
    const int64_t space = directive.width - static_cast<int64_t>(length);
    if (!directive.is_left) fill(' ', space);
    out_ += text;
    if (directive.is_left) fill(' ', space);
  }

  void add_number(const Directive& directive, std::string text) {
    std::string sign;
    if (text[0] == '-') {
      sign = "-";
      text.erase(0, 1);
    } else if (directive.has_plus || directive.has_space) {
      sign = directive.has_plus ? "+" : " ";
    }
    const int64_t space = directive.width - static_cast<int64_t>(text.size() + sign.size());
    const bool is_zeroed = directive.has_zero && !directive.is_left;
    if (!directive.is_left && !is_zeroed) fill(' ', space);
    const bool has_prefix = text.size() > 1 && text[0] == '0' &&
                            std::string_view("oxX").find(text[1]) != std::string_view::npos;
    out_ += sign;
    if (has_prefix) out_ += text.substr(0, 2);
    if (is_zeroed) fill('0', space);
    out_ += has_prefix ? text.substr(2) : text;
    if (directive.is_left) fill(' ', space);
  }

  std::string_view text_;
  bool is_markup_;
  const Value& values_;
  bool is_mapping_ = false;
  size_t at_ = 0;
  size_t next_ = 0;
  std::optional<Value> named_;
  std::string out_;
};

}  // namespace

Value percent_format(const Value& format, const Value& values) {
  std::string text = PercentFormat(format, values).run();
  return Value::string(std::move(text), format.is_markup());
}

}  // namespace lathe::templates
