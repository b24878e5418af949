// SPDX-License-Identifier: MIT
#include "tests/support/row_text.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::test {
namespace {

// A position in a row's text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view written) {
    skip_space();
    if (!text_.substr(at_).starts_with(written)) return false;
    at_ += written.size();
    return true;
  }
  void expect(std::string_view written) {
    check(accept(written), ErrorKind::invalid_argument, "expected '{}' before \"{}\"", written,
          rest());
  }
  std::string word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    check(at_ > begin, ErrorKind::invalid_argument, "expected a name before \"{}\"", rest());
    return std::string(text_.substr(begin, at_ - begin));
  }
  // A number: digits, signs, inf, nan, exponents, 0x.
  std::string number() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) {
      ++at_;
    }
    check(at_ > begin, ErrorKind::invalid_argument, "expected a number before \"{}\"", rest());
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        out += text_[at_++];
      } else if (text_[at_ + 1] == 'x') {
        const std::string digits(text_.substr(at_ + 2, 2));
        out += static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
        at_ += 4;
      } else {
        out += text_[at_ + 1];
        at_ += 2;
      }
    }
    check(at_ < text_.size(), ErrorKind::invalid_argument, "no closing quote after \"{}\"", out);
    ++at_;
    return out;
  }
  std::string_view rest() const { return text_.substr(at_).substr(0, 40); }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

// Keeps infinities if the type has them, and the nearest power of two.
constexpr ConvertOptions kExact{.saturate = false, .scale_rounding = ScaleRounding::nearest};

double read_real(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  check(!copy.empty() && *end == '\0', ErrorKind::invalid_argument, "'{}' is not a number", copy);
  return value;
}

int64_t read_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const int64_t value =
      text.starts_with('-') || text.starts_with('+')
          ? std::strtoll(text.c_str(), &end, 0)
          : static_cast<int64_t>(std::strtoull(text.c_str(), &end, 0));  // u64: keeps the bits
  check(*end == '\0' && errno == 0, ErrorKind::invalid_argument, "'{}' is not an integer", text);
  return value;
}

template <class F>
void read_list(Cursor& c, std::string_view open, std::string_view close, F&& item) {
  c.expect(open);
  while (!c.accept(close)) {
    item();
    if (!c.accept(",")) {
      c.expect(close);
      return;
    }
  }
}

Type read_type(Cursor& c) {
  const std::string name = c.word();
  if (name == "seq" || name == "opt") {
    c.expect("<");
    Type item = read_type(c);
    c.expect(">");
    return name == "seq" ? Type::sequence(std::move(item)) : Type::optional(std::move(item));
  }
  if (name == "map") {
    c.expect("<");
    const std::optional<ElementType> key = element_type_from_name(c.word());
    check(key.has_value(), ErrorKind::invalid_argument, "map<…> needs a key type before \"{}\"",
          c.rest());
    c.expect(",");
    Type value = read_type(c);
    c.expect(">");
    return Type::map(*key, std::move(value));
  }
  const std::optional<ElementType> element = element_type_from_name(name);
  check(element.has_value(), ErrorKind::invalid_argument, "'{}' is not an element type", name);
  c.expect("[");
  if (c.accept("*")) {
    c.expect("]");
    return Type::unranked(*element);
  }
  std::vector<Dim> dims;
  while (!c.accept("]")) {
    dims.emplace_back(read_integer(c.number()));
    c.accept(",");
  }
  return Type::tensor(*element, std::move(dims));
}

// "1+2i" or "3"
void read_complex(const std::string& text, std::vector<double>& out) {
  size_t split = std::string::npos;
  if (text.ends_with('i')) {
    split = text.find_last_of("+-");
    if (split == 0) split = std::string::npos;
  }
  check(split != std::string::npos || !text.ends_with('i'), ErrorKind::invalid_argument,
        "'{}' is not a complex number such as 1+2i", text);
  out.push_back(read_real(text.substr(0, split)));
  out.push_back(
      split == std::string::npos ? 0.0 : read_real(text.substr(split, text.size() - split - 1)));
}

Tensor read_tensor(Cursor& c, const Type& type) {
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
  Tensor tensor(type.element, dims);
  const ElementClass cls = info(type.element).cls;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::vector<std::string> texts;
  read_list(c, "{", "}", [&] {
    if (cls == ElementClass::string) {
      texts.push_back(c.quoted());
      return;
    }
    const std::string text = c.number();
    if (cls == ElementClass::complex) {
      read_complex(text, reals);
    } else if (cls == ElementClass::floating) {
      reals.push_back(read_real(text));
    } else if (cls == ElementClass::boolean && (text == "true" || text == "false")) {
      integers.push_back(text == "true" ? 1 : 0);
    } else {
      integers.push_back(read_integer(text));
    }
  });
  const auto count = static_cast<size_t>(tensor.count());
  const size_t given = cls == ElementClass::complex
                           ? reals.size() / 2
                           : std::max({reals.size(), integers.size(), texts.size()});
  check(given == count, ErrorKind::invalid_argument, "{} requires {} values, got {}",
        type.to_string(), count, given);
  const auto n = static_cast<int64_t>(count);
  if (cls == ElementClass::string) {
    std::copy(texts.begin(), texts.end(), tensor.as<std::string>());
  } else if (type.element == ElementType::c64) {
    convert(ElementType::f32, tensor.data(), ElementType::f64, reals.data(), 2 * n);
  } else if (type.element == ElementType::c128) {
    std::copy(reals.begin(), reals.end(), tensor.as<double>());
  } else if (cls == ElementClass::floating) {
    convert(type.element, tensor.data(), ElementType::f64, reals.data(), n, kExact);
  } else if (type.element == ElementType::u64) {
    std::copy(integers.begin(), integers.end(), tensor.as<int64_t>());
  } else {
    convert(type.element, tensor.data(), ElementType::i64, integers.data(), n);
  }
  return tensor;
}

RowValue read_value(Cursor& c) {
  RowValue value;
  if (c.accept("_")) {
    value.absent = true;
    return value;
  }
  value.type = read_type(c);
  if (value.type.is_tensor()) {
    check(value.type.dims.has_value(), ErrorKind::invalid_argument,
          "{} requires a shape for its values", value.type.to_string());
    value.box = Box{read_tensor(c, value.type)};
    return value;
  }
  std::vector<Box> items;
  read_list(c, "[", "]", [&] { items.push_back(read_value(c).box); });
  if (value.type.kind == Type::Kind::map) {
    check(!items.empty(), ErrorKind::invalid_argument, "{} needs its keys, then its values",
          value.type.to_string());
    const Tensor keys = items.front().tensor();
    items.erase(items.begin());
    value.box = Box{std::make_shared<const BoxMap>(BoxMap{keys, std::move(items)})};
  } else if (value.type.kind == Type::Kind::sequence) {
    value.box = Box{std::make_shared<const std::vector<Box>>(std::move(items))};
  } else if (!items.empty()) {
    value.box = items.front();
  }
  return value;
}

Attribute read_scalar_attribute(Cursor& c) {
  if (c.peek() == '"') return c.quoted();
  const std::string text = c.number();
  if (text == "true" || text == "false") return text == "true";
  if (const auto element = element_type_from_name(text)) return *element;
  const bool real = text.find_first_of(".eEn") != std::string::npos && !text.starts_with("0x");
  if (real) return read_real(text);
  return read_integer(text);
}

Attribute read_attribute(Cursor& c) {
  if (c.accept("type(")) {
    Type type = read_type(c);
    c.expect(")");
    return type;
  }
  if (c.accept("dims(")) {
    std::vector<Dim> dims;
    while (!c.accept(")")) {
      dims.emplace_back(read_integer(c.number()));
      c.accept(",");
    }
    return dims;
  }
  if (c.peek() != '[') return read_scalar_attribute(c);
  Integers integers;
  Numbers numbers;
  Texts texts;
  read_list(c, "[", "]", [&] {
    const Attribute item = read_scalar_attribute(c);
    if (const auto* integer = std::get_if<int64_t>(&item)) integers.push_back(*integer);
    if (const auto* number = std::get_if<double>(&item)) numbers.push_back(*number);
    if (const auto* text = std::get_if<std::string>(&item)) texts.push_back(*text);
  });
  if (!texts.empty()) return texts;
  if (numbers.empty()) return integers;
  check(integers.empty(), ErrorKind::invalid_argument,
        "list of {} integers and {} floats, expected one type", integers.size(), numbers.size());
  return numbers;
}

void read_row(std::string_view text, OpRow& row) {
  Cursor c(text);
  row.op = c.word();
  read_list(c, "(", ")", [&] { row.operands.push_back(read_value(c)); });
  if (c.peek() == '{') {
    read_list(c, "{", "}", [&] {
      std::string name = c.word();
      c.expect("=");
      row.attributes.emplace_back(std::move(name), read_attribute(c));
    });
  }
  c.expect("=");
  if (c.accept("error")) {
    row.error = c.quoted();
  } else {
    do row.results.push_back(read_value(c));
    while (c.accept(","));
  }
  while (!c.at_end()) {
    const std::string word = c.word();
    check(word == "within" || word == "static", ErrorKind::invalid_argument,
          "expected 'within TOLERANCE' or 'static', found '{}'", word);
    if (word == "static") row.is_static = true;
    if (word == "within") row.tolerance = read_real(c.number());
  }
}

}  // namespace

std::vector<OpRow> read_op_rows(const std::string& file) {
  std::ifstream in(file);
  check(in.good(), ErrorKind::io, "cannot read {}", file);
  std::vector<OpRow> rows;
  std::string comment;
  bool comment_open = false;  // the next line continues the comment
  std::vector<std::string> texts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.starts_with("# SPDX")) continue;
    if (line.starts_with('#')) {
      const std::string part = line.substr(std::min(line.find_first_not_of("# "), line.size()));
      comment = comment_open ? comment + " " + part : part;
      comment_open = true;
      continue;
    }
    comment_open = false;
    if (line.find_first_not_of(' ') == std::string::npos) {
      comment.clear();
    } else if (line.starts_with(' ') || line.starts_with('}')) {
      check(!texts.empty(), ErrorKind::invalid_argument,
            "{}:{}: indented line without a row before it", file, number);
      if (texts.back().starts_with("program ")) {
        texts.back() += '\n' + line;
        continue;
      }
      // A line end counts as one blank, also within a string.
      texts.back() += ' ' + line.substr(line.find_first_not_of(' '));
    } else {
      const bool follows = line.starts_with("run(") || line.starts_with("then(");
      if (comment.empty() && follows && !rows.empty()) comment = rows.back().sentence;
      check(!comment.empty(), ErrorKind::invalid_argument,
            "{}:{}: expected a comment before the row", file, number);
      OpRow row;
      row.file = file;
      row.line = number;
      row.sentence = comment;
      rows.push_back(std::move(row));
      texts.push_back(line);
    }
  }
  std::vector<OpRow> tests;
  std::string program;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (texts[i].starts_with("program ")) {
      program = texts[i];
      continue;
    }
    try {
      read_row(texts[i], rows[i]);
    } catch (const Error& error) {
      fail(error.kind(), "{}:{}: {}", file, rows[i].line, error.message());
    }
    if (rows[i].op == "then") {
      check(!tests.empty() && tests.back().op == "run", ErrorKind::invalid_argument,
            "{}:{}: 'then' without a 'run' before it", file, rows[i].line);
      tests.back().then.push_back(std::move(rows[i]));
      continue;
    }
    if (rows[i].op == "run") rows[i].program = program;
    tests.push_back(std::move(rows[i]));
  }
  check(!tests.empty(), ErrorKind::invalid_argument, "{} has no rows", file);
  return tests;
}

}  // namespace lathe::test
