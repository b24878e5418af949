// SPDX-License-Identifier: MIT
// floor_div, ceil_div, mod, min, max and bcast of dims, and their simplification rules.
// A division by zero has no value, so the rules assume nonzero divisors.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/dim.h"
#include "tensor/dim_node.h"

namespace lathe {
namespace {

using Func = Dim::Func;
using Node = Dim::Node;

// min and max compare all pairs of arguments.
constexpr size_t kMaxArguments = 64;
constexpr int kMaxDivisionSteps = 64;

bool is_zero(const Dim& a) { return a.constant() == 0; }

// `factors` without those of `divisor`; nullopt if one is missing. Both are ascending.
std::optional<std::vector<AtomRef>> divide_factors(const std::vector<AtomRef>& factors,
                                                   const std::vector<AtomRef>& divisor) {
  std::vector<AtomRef> rest;
  size_t matched = 0;
  for (const AtomRef& factor : factors) {
    if (matched < divisor.size() && compare_atoms(*factor, *divisor[matched]) == 0) {
      ++matched;
    } else {
      rest.push_back(factor);
    }
  }
  if (matched < divisor.size()) return std::nullopt;
  return rest;
}

Dim monomial(int64_t coefficient, std::vector<AtomRef> factors) {
  if (factors.empty()) return coefficient;
  return Node::make({Term{coefficient, std::move(factors)}}, 0);
}

// True if a / b is exact and does not overflow.
bool is_divisible(int64_t a, int64_t b) {
  return b == -1 ? a != std::numeric_limits<int64_t>::min() : a % b == 0;
}

// The term of a dim of one term or a constant (no factors); else nullopt.
std::optional<Term> as_monomial(const Dim& a) {
  const auto terms = Node::terms_of(a);
  if (terms.empty()) return Term{*a.constant(), {}};
  if (terms.size() == 1 && Node::constant_of(a) == 0) return terms[0];
  return std::nullopt;
}

struct Division {
  Dim quotient;
  Dim remainder;
};

// a = quotient * divisor + remainder. Divides whole terms only; the constant of the remainder is in
// [0, divisor).
Division divide_terms(const Dim& a, const Term& divisor) {
  std::vector<Term> quotient;
  std::vector<Term> remainder;
  for (const Term& term : Node::terms_of(a)) {
    auto factors = is_divisible(term.coefficient, divisor.coefficient)
                       ? divide_factors(term.factors, divisor.factors)
                       : std::nullopt;
    if (factors) {
      quotient.push_back({term.coefficient / divisor.coefficient, std::move(*factors)});
    } else {
      remainder.push_back(term);
    }
  }
  Division result;
  for (Term& term : quotient) {
    result.quotient = result.quotient + monomial(term.coefficient, std::move(term.factors));
  }
  int64_t constant = Node::constant_of(a);
  if (divisor.factors.empty()) {
    result.quotient = result.quotient + *checked_floor_div(constant, divisor.coefficient);
    constant = *checked_mod(constant, divisor.coefficient);
  }
  result.remainder = Node::make(std::move(remainder), constant);
  return result;
}

// a / b if polynomial division is exact.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  const auto divisor = Node::terms_of(b);
  if (divisor.empty()) return std::nullopt;
  Dim quotient;
  Dim rest = a;
  for (int step = 0; step < kMaxDivisionSteps; ++step) {
    if (is_zero(rest)) return quotient;
    const auto terms = Node::terms_of(rest);
    if (terms.empty() || !is_divisible(terms[0].coefficient, divisor[0].coefficient)) break;
    auto factors = divide_factors(terms[0].factors, divisor[0].factors);
    if (!factors) break;
    const Dim part = monomial(terms[0].coefficient / divisor[0].coefficient, std::move(*factors));
    quotient = quotient + part;
    rest = rest - part * b;
  }
  return std::nullopt;
}

// The greatest common divisor of b and all terms of a except its constant.
Term common_content(const Dim& a, const Term& b) {
  Term content{std::abs(b.coefficient), b.factors};
  for (const Term& term : Node::terms_of(a)) {
    content.coefficient = std::gcd(content.coefficient, term.coefficient);
    std::vector<AtomRef> common;
    std::set_intersection(
        content.factors.begin(), content.factors.end(), term.factors.begin(), term.factors.end(),
        std::back_inserter(common),
        [](const AtomRef& x, const AtomRef& y) { return compare_atoms(*x, *y) < 0; });
    content.factors = std::move(common);
  }
  return content;
}

// Divides every term of a by the content and drops the constant.
Dim divide_content(const Dim& a, const Term& content) {
  std::vector<Term> terms;
  for (const Term& term : Node::terms_of(a)) {
    terms.push_back(
        {term.coefficient / content.coefficient, *divide_factors(term.factors, content.factors)});
  }
  Dim result;
  for (Term& term : terms) {
    result = result + monomial(term.coefficient, std::move(term.factors));
  }
  return result;
}

bool is_positive_constant(const Dim& a) { return a.constant().value_or(0) > 0; }

// floor_div(floor_div(x, m) + k, n) = floor_div(x + k * m, m * n) for constants m, n > 0.
std::optional<Dim> merge_nested_division(const Dim& a, const Dim& b) {
  const Atom* inner = as_function(a, Func::floor_div);
  if (!inner || !is_positive_constant(b) || !is_positive_constant(inner->args[1])) {
    return std::nullopt;
  }
  int64_t product = 0;
  int64_t shift = 0;
  const int64_t m = *inner->args[1].constant();
  if (__builtin_mul_overflow(m, *b.constant(), &product) ||
      __builtin_mul_overflow(m, Node::constant_of(a), &shift)) {
    return std::nullopt;
  }
  return Dim::floor_div(inner->args[0] + shift, product);
}

bool is_within(const Dim& a, const Dim& end) {
  return less_equal(0, a) == Ternary::yes && less_equal(a + 1, end) == Ternary::yes;
}

// floor_div, simplified by ranges only.
Dim divide_or_apply(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return *checked_floor_div(*a.constant(), *b.constant());
  }
  const Range ranges[] = {a.range(), b.range()};
  const Range range = function_range(Func::floor_div, ranges);
  if (range.min == range.max && range.max < kUnbounded && range.min > -kUnbounded) {
    return range.min;
  }
  return is_within(a, b) ? Dim(0) : apply(Func::floor_div, {a, b});
}

// floor_div of a remainder: cancels common content and merges nested divisions.
Dim divide_remainder(Dim a, const Term& divisor) {
  const Term content = common_content(a, divisor);
  const int64_t constant = Node::constant_of(a);
  Dim b = monomial(divisor.coefficient, divisor.factors);
  if (divisor.factors.empty()) {
    // floor((g*p + k) / (g*c)) = floor((p + floor(k/g)) / c) for g, c > 0.
    b = divisor.coefficient / content.coefficient;
    a = divide_content(a, content) + *checked_floor_div(constant, content.coefficient);
  } else if (constant == 0 && (content.coefficient > 1 || !content.factors.empty())) {
    return Dim::floor_div(divide_content(a, content), divide_content(b, content));
  }
  if (const auto merged = merge_nested_division(a, b)) return *merged;
  return divide_or_apply(a, b);
}

void check_divisor(const char* function, const Dim& a, const Dim& b) {
  check(!is_zero(b), ErrorKind::invalid_argument, "{}({}, 0) divides by zero", function,
        a.to_string());
}

// Flattens nested calls of one function: the arguments of min(min(a, b) + 1, c) are a + 1, b + 1
// and c.
void append_flat(Func func, const Dim& a, std::vector<Dim>& out) {
  const Atom* atom = as_function(a, func);
  const int64_t constant = Node::constant_of(a);
  if (!atom || (func == Func::bcast && constant != 0)) {
    out.push_back(a);
    return;
  }
  for (const Dim& arg : atom->args) out.push_back(arg + constant);
}

std::vector<Dim> flat_arguments(Func func, const Dim& a, const Dim& b) {
  std::vector<Dim> args;
  append_flat(func, a, args);
  append_flat(func, b, args);
  std::sort(args.begin(), args.end(),
            [](const Dim& x, const Dim& y) { return Dim::compare(x, y) < 0; });
  args.erase(std::unique(args.begin(), args.end()), args.end());
  return args;
}

// True if argument y makes argument x of min or max redundant.
bool is_dominated(Func func, const Dim& x, const Dim& y) {
  return (func == Func::min ? less_equal(y, x) : less_equal(x, y)) == Ternary::yes;
}

Dim min_or_max(Func func, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return func == Func::min ? std::min(*a.constant(), *b.constant())
                             : std::max(*a.constant(), *b.constant());
  }
  std::vector<Dim> args = flat_arguments(func, a, b);
  check(args.size() <= kMaxArguments, ErrorKind::unsupported,
        "{} of dims has {} arguments, at most {} are supported", to_string(func), args.size(),
        kMaxArguments);
  // From the end, so that the first of two equal arguments remains.
  for (size_t i = args.size(); i-- > 0;) {
    const bool is_idle = std::any_of(args.begin(), args.end(), [&](const Dim& other) {
      return &other != &args[i] && is_dominated(func, args[i], other);
    });
    if (is_idle) args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (args.size() == 1) return args[0];
  // Moves a common constant outside, unless an argument is a constant.
  int64_t shift = 0;
  if (!args[0].is_constant()) {
    shift = Node::constant_of(*std::min_element(
        args.begin(), args.end(),
        [](const Dim& x, const Dim& y) { return Node::constant_of(x) < Node::constant_of(y); }));
    for (Dim& arg : args) arg = arg - shift;
  }
  std::sort(args.begin(), args.end(),
            [](const Dim& x, const Dim& y) { return Dim::compare(x, y) < 0; });
  return apply(func, std::move(args)) + shift;
}

}  // namespace

Dim Dim::floor_div(const Dim& a, const Dim& b) {
  check_divisor("floor_div", a, b);
  const auto divisor = as_monomial(b);
  if (!divisor) {
    if (const auto quotient = divide_exactly(a, b)) return *quotient;
    return divide_or_apply(a, b);
  }
  if (divisor->coefficient < 0) return floor_div(0 - a, 0 - b);
  if (b.constant() == 1) return a;
  const Division division = divide_terms(a, *divisor);
  if (is_zero(division.remainder)) return division.quotient;
  return division.quotient + divide_remainder(division.remainder, *divisor);
}

Dim Dim::ceil_div(const Dim& a, const Dim& b) {
  check_divisor("ceil_div", a, b);
  if (a.is_constant() && b.is_constant()) return 0 - floor_div(0 - a, b);
  if (b.is_constant()) {
    return *b.constant() < 0 ? ceil_div(0 - a, 0 - b) : floor_div(a + (b - 1), b);
  }
  const auto divisor = as_monomial(b);
  if (!divisor) {
    if (const auto quotient = divide_exactly(a, b)) return *quotient;
    return apply(Func::ceil_div, {a, b});
  }
  if (divisor->coefficient < 0) return ceil_div(0 - a, 0 - b);
  const Division division = divide_terms(a, *divisor);
  if (is_zero(division.remainder)) return division.quotient;
  const Term content = common_content(division.remainder, *divisor);
  const bool is_cancelled = content.coefficient > 1 || !content.factors.empty();
  if (is_cancelled && Node::constant_of(division.remainder) == 0) {
    return division.quotient +
           ceil_div(divide_content(division.remainder, content), divide_content(b, content));
  }
  return division.quotient + apply(Func::ceil_div, {division.remainder, b});
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  check_divisor("mod", a, b);
  if (a.is_constant() && b.is_constant()) return *checked_mod(*a.constant(), *b.constant());
  const auto divisor = as_monomial(b);
  if (!divisor) return divide_exactly(a, b) ? Dim(0) : apply(Func::mod, {a, b});
  if (divisor->coefficient < 0) return 0 - mod(0 - a, 0 - b);
  Dim rest = divide_terms(a, *divisor).remainder;
  if (is_zero(rest)) return 0;
  // mod(g*p + k, g*c) = g * mod(p + floor(k/g), c) + mod(k, g) for integers g, c > 0, and
  // mod(g*p, g*q) = g * mod(p, q) for any g.
  Term content = common_content(rest, *divisor);
  const int64_t constant = Node::constant_of(rest);
  if (!divisor->factors.empty() && constant != 0) content = Term{1, {}};
  const int64_t g = content.coefficient;
  rest = divide_content(rest, content) + *checked_floor_div(constant, g);
  const Dim reduced =
      monomial(divisor->coefficient / g, *divide_factors(divisor->factors, content.factors));
  if (!content.factors.empty()) return monomial(g, content.factors) * mod(rest, reduced);
  const Dim remainder = is_within(rest, reduced) ? rest : apply(Func::mod, {rest, reduced});
  return g * remainder + *checked_mod(constant, g);
}

Dim Dim::min(const Dim& a, const Dim& b) { return min_or_max(Func::min, a, b); }

Dim Dim::max(const Dim& a, const Dim& b) { return min_or_max(Func::max, a, b); }

namespace {

// True if `capped` is the minimum of `dim` and numbers above 1: a size that broadcasts with `dim`
// is then equal to it.
bool is_capped(const Dim& capped, const Dim& dim) {
  const Atom* minimum = as_function(capped, Dim::Func::min);
  if (minimum == nullptr || Dim::Node::constant_of(capped) != 0) return false;
  return std::ranges::all_of(minimum->args,
                             [&](const Dim& arg) {
                               return arg == dim || (arg.is_constant() && *arg.constant() > 1);
                             }) &&
         std::ranges::find(minimum->args, dim) != minimum->args.end();
}

}  // namespace

Dim Dim::bcast(const Dim& a, const Dim& b) {
  if (a.constant() == 1) return b;
  if (b.constant() == 1) return a;
  check(!a.is_constant() || !b.is_constant() || a == b, ErrorKind::invalid_argument,
        "sizes {} and {} cannot be broadcast", a.to_string(), b.to_string());
  if (is_capped(a, b)) return b;
  if (is_capped(b, a)) return a;
  std::vector<Dim> args = flat_arguments(Func::bcast, a, b);
  // The result is the first argument that is never 1.
  for (const Dim& arg : args) {
    const Range range = arg.range();
    if (range.min > 1 || range.max < 1) return arg;
  }
  return args.size() == 1 ? args[0] : apply(Func::bcast, std::move(args));
}

}  // namespace lathe
