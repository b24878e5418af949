// SPDX-License-Identifier: MIT
// Printer and parser of dims.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tensor/dim.h"
#include "tensor/dim_node.h"

namespace lathe {
namespace {

constexpr int kMaxNesting = 100;

struct FuncName {
  Dim::Func func;
  std::string_view name;
};
constexpr std::array kFuncs{
    FuncName{Dim::Func::floor_div, "floor_div"},
    FuncName{Dim::Func::ceil_div, "ceil_div"},
    FuncName{Dim::Func::mod, "mod"},
    FuncName{Dim::Func::min, "min"},
    FuncName{Dim::Func::max, "max"},
    FuncName{Dim::Func::bcast, "bcast"},
};

// Locale-free character classes.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

std::optional<Dim::Func> func_named(std::string_view name) {
  for (const FuncName& entry : kFuncs) {
    if (entry.name == name) return entry.func;
  }
  return std::nullopt;
}

// Quotes names that are not identifiers; bytes other than printable ASCII become \xNN.
void print_name(std::string_view name, std::string& out) {
  if (!name.empty() && is_name_start(name[0]) &&
      std::all_of(name.begin(), name.end(), is_name_part) && !func_named(name)) {
    out += name;
    return;
  }
  out += '"';
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += '"';
}

void print(const Dim& dim, std::string& out);

void print_atom(const Atom& atom, std::string& out) {
  if (atom.symbol) return print_name(atom.symbol->name, out);
  out += to_string(atom.func);
  out += '(';
  for (size_t i = 0; i < atom.args.size(); ++i) {
    if (i > 0) out += ", ";
    print(atom.args[i], out);
  }
  out += ')';
}

// |value|, also for INT64_MIN.
uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

void print(const Dim& dim, std::string& out) {
  const auto terms = Dim::Node::terms_of(dim);
  if (terms.empty()) {
    out += fmt::to_string(Dim::Node::constant_of(dim));
    return;
  }
  bool is_first = true;
  for (const Term& term : terms) {
    if (is_first) {
      out += term.coefficient < 0 ? "-" : "";
    } else {
      out += term.coefficient < 0 ? " - " : " + ";
    }
    is_first = false;
    if (magnitude(term.coefficient) != 1) {
      out += fmt::format("{}*", magnitude(term.coefficient));
    }
    for (size_t i = 0; i < term.factors.size(); ++i) {
      if (i > 0) out += '*';
      print_atom(*term.factors[i], out);
    }
  }
  if (const int64_t constant = Dim::Node::constant_of(dim); constant != 0) {
    out += fmt::format(" {} {}", constant < 0 ? '-' : '+', magnitude(constant));
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::function<SymbolRef(std::string_view)>& lookup)
      : text_(text), lookup_(lookup) {}

  Dim parse_all() {
    const Dim result = parse_sum();
    skip_space();
    if (at_ < text_.size()) fail_here("'{}' follows a complete expression", rest());
    return result;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::invalid_argument, "dim '{}': {} at offset {}", escape(text_),
         fmt::format(format, std::forward<Args>(args)...), at_);
  }

  std::string rest() const { return escape(text_.substr(at_), 20); }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail_here("expected '{}', found '{}'", c, rest());
  }

  // Adds the offset to errors of arithmetic.
  template <class F>
  Dim compute(const F& f) const {
    try {
      return f();
    } catch (const Error& error) {
      fail_here("{}", error.message());
    }
  }

  Dim parse_sum() {
    if (++nesting_ > kMaxNesting) fail_here("more than {} nested expressions", kMaxNesting);
    Dim sum = parse_product(accept('-'));
    while (true) {
      const bool is_minus = accept('-');
      if (!is_minus && !accept('+')) break;
      const Dim term = parse_product(is_minus);
      sum = compute([&] { return sum + term; });
    }
    --nesting_;
    return sum;
  }

  // Passes the sign to the first factor, so that INT64_MIN can be parsed.
  Dim parse_product(bool is_negative) {
    Dim product = parse_factor(is_negative);
    while (accept('*')) {
      const Dim factor = parse_factor(accept('-'));
      product = compute([&] { return product * factor; });
    }
    return product;
  }

  Dim parse_factor(bool is_negative) {
    skip_space();
    if (at_ >= text_.size()) fail_here("expected a number, name or '(', found '{}'", "the end");
    if (is_digit(text_[at_])) return parse_number(is_negative);
    const Dim value = parse_positive_factor();
    return is_negative ? compute([&] { return 0 - value; }) : value;
  }

  Dim parse_number(bool is_negative) {
    uint64_t digits = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(digits, uint64_t{10}, &digits) ||
          __builtin_add_overflow(digits, static_cast<uint64_t>(text_[at_] - '0'), &digits)) {
        fail_here("number has more than {} bits", 63);
      }
    }
    const uint64_t limit = static_cast<uint64_t>(kUnbounded) + (is_negative ? 1 : 0);
    if (digits > limit) fail_here("number is larger than {}", limit);
    return static_cast<int64_t>(is_negative ? 0 - digits : digits);
  }

  Dim parse_positive_factor() {
    if (accept('(')) {
      const Dim inner = parse_sum();
      expect(')');
      return inner;
    }
    const size_t start = at_;
    if (text_[at_] == '"') return symbol(parse_quoted(), start);
    if (!is_name_start(text_[at_])) fail_here("expected a number, name or '(', found '{}'", rest());
    while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    const auto func = func_named(name);
    return func ? parse_call(*func) : symbol(name, start);
  }

  Dim symbol(std::string_view name, size_t start) {
    if (SymbolRef found = lookup_(name)) return Dim(std::move(found));
    at_ = start;
    fail_here("unknown symbol '{}'", escape(name));
  }

  std::string parse_quoted() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        name += text_[at_];
        continue;
      }
      const std::string_view escaped = text_.substr(at_ + 1);
      if (escaped.starts_with('\\') || escaped.starts_with('"')) {
        name += text_[++at_];
      } else if (escaped.starts_with('x') && escaped.size() >= 3) {
        name += static_cast<char>(hex_digit(escaped[1]) * 16 + hex_digit(escaped[2]));
        at_ += 3;
      } else {
        fail_here("expected \\\\, \\\" or \\xNN, found '{}'", rest());
      }
    }
    expect('"');
    return name;
  }

  int hex_digit(char c) const {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    fail_here("expected two hexadecimal digits, found '{}'", rest());
  }

  Dim parse_call(Dim::Func func) {
    expect('(');
    Dim result = parse_sum();
    expect(',');
    do {
      const Dim arg = parse_sum();
      result = compute([&] { return call(func, result, arg); });
      const bool is_variadic = func >= Dim::Func::min;
      if (!is_variadic) break;
    } while (accept(','));
    expect(')');
    return result;
  }

  static Dim call(Dim::Func func, const Dim& a, const Dim& b) {
    switch (func) {
      case Dim::Func::floor_div:
        return Dim::floor_div(a, b);
      case Dim::Func::ceil_div:
        return Dim::ceil_div(a, b);
      case Dim::Func::mod:
        return Dim::mod(a, b);
      case Dim::Func::min:
        return Dim::min(a, b);
      case Dim::Func::max:
        return Dim::max(a, b);
      case Dim::Func::bcast:
        return Dim::bcast(a, b);
    }
    fail(ErrorKind::internal, "unknown dim function {}", static_cast<int>(func));
  }

  std::string_view text_;
  const std::function<SymbolRef(std::string_view)>& lookup_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

std::string_view to_string(Dim::Func func) { return kFuncs[static_cast<size_t>(func)].name; }

std::string Dim::to_string() const {
  std::string out;
  print(*this, out);
  return out;
}

Dim Dim::parse(std::string_view text, const std::function<SymbolRef(std::string_view)>& lookup) {
  return Parser(text, lookup).parse_all();
}

}  // namespace lathe
