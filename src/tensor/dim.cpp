// SPDX-License-Identifier: MIT
// Construction, arithmetic, order and evaluation of dims.
#include "tensor/dim.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "tensor/dim_node.h"

namespace lathe {
namespace {

// Limits against hostile files and defects; real shapes are far smaller.
constexpr int kMaxSize = 2000;
constexpr int kMaxDepth = 100;
constexpr size_t kMaxProducts = 20000;

[[noreturn]] void fail_overflow(const Dim& a, char op, const Dim& b) {
  fail(ErrorKind::unsupported, "dim ({}) {} ({}) does not fit in 64 bits", a.to_string(), op,
       b.to_string());
}

void check_size(int size, int depth) {
  check(size <= kMaxSize, ErrorKind::unsupported,
        "dim expression has {} terms and factors, at most {} are supported", size, kMaxSize);
  check(depth <= kMaxDepth, ErrorKind::unsupported,
        "dim expression nests {} functions, at most {} are supported", depth, kMaxDepth);
}

int64_t add_checked(int64_t x, int64_t y, const Dim& a, const Dim& b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(x, y, &sum)) fail_overflow(a, '+', b);
  return sum;
}

int64_t multiply_checked(int64_t x, int64_t y, const Dim& a, const Dim& b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(x, y, &product)) fail_overflow(a, '*', b);
  return product;
}

Dim scale(const Dim& a, int64_t factor) {
  if (factor == 0) return 0;
  if (factor == 1) return a;
  const auto source = Dim::Node::terms_of(a);
  std::vector<Term> terms(source.begin(), source.end());
  for (Term& term : terms) {
    term.coefficient = multiply_checked(term.coefficient, factor, a, factor);
  }
  return Dim::Node::make(std::move(terms),
                         multiply_checked(Dim::Node::constant_of(a), factor, a, factor));
}

// Sorts terms and merges those with the same factors.
std::vector<Term> collect_terms(std::vector<Term> terms, const Dim& a, const Dim& b) {
  std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) {
    return compare_monomials(x.factors, y.factors) < 0;
  });
  std::vector<Term> result;
  for (Term& term : terms) {
    if (!result.empty() && compare_monomials(result.back().factors, term.factors) == 0) {
      int64_t& sum = result.back().coefficient;
      sum = add_checked(sum, term.coefficient, a, b);
    } else {
      if (!result.empty() && result.back().coefficient == 0) result.pop_back();
      result.push_back(std::move(term));
    }
  }
  if (!result.empty() && result.back().coefficient == 0) result.pop_back();
  return result;
}

std::optional<int64_t> evaluate_atom(
    const Atom& atom, const std::function<std::optional<int64_t>(const Symbol&)>& values) {
  if (atom.symbol) return values(*atom.symbol);
  std::optional<int64_t> result = atom.args[0].evaluate(values);
  for (size_t i = 1; i < atom.args.size() && result; ++i) {
    const std::optional<int64_t> next = atom.args[i].evaluate(values);
    if (!next) return std::nullopt;
    const int64_t a = *result;
    const int64_t b = *next;
    switch (atom.func) {
      case Dim::Func::floor_div:
        result = checked_floor_div(a, b);
        break;
      case Dim::Func::ceil_div:
        result = checked_floor_div(a, b);
        // Cannot overflow: an inexact division has |b| > 1.
        if (result && *checked_mod(a, b) != 0) ++*result;
        break;
      case Dim::Func::mod:
        result = checked_mod(a, b);
        break;
      case Dim::Func::min:
        result = std::min(a, b);
        break;
      case Dim::Func::max:
        result = std::max(a, b);
        break;
      case Dim::Func::bcast:
        if (a != b && a != 1 && b != 1) return std::nullopt;
        result = a == 1 ? b : a;
        break;
    }
  }
  return result;
}

Dim substitute_atom(const AtomRef& atom, const std::map<std::string, Dim, std::less<>>& map) {
  if (atom->symbol) {
    const auto found = map.find(atom->symbol->name);
    return found == map.end() ? Dim::Node::from_atom(atom) : found->second;
  }
  Dim result = atom->args[0].substitute(map);
  for (size_t i = 1; i < atom->args.size(); ++i) {
    const Dim next = atom->args[i].substitute(map);
    switch (atom->func) {
      case Dim::Func::floor_div:
        result = Dim::floor_div(result, next);
        break;
      case Dim::Func::ceil_div:
        result = Dim::ceil_div(result, next);
        break;
      case Dim::Func::mod:
        result = Dim::mod(result, next);
        break;
      case Dim::Func::min:
        result = Dim::min(result, next);
        break;
      case Dim::Func::max:
        result = Dim::max(result, next);
        break;
      case Dim::Func::bcast:
        result = Dim::bcast(result, next);
        break;
    }
  }
  return result;
}

}  // namespace

Dim::Dim(int64_t value) : constant_(value) {}

Dim::Dim(SymbolRef symbol) {
  check(symbol != nullptr, ErrorKind::internal, "expected a symbol for a dim, got {}", "null");
  auto atom = std::make_shared<Atom>();
  atom->symbol = std::move(symbol);
  *this = Node::from_atom(std::move(atom));
}

Dim::Dim(std::shared_ptr<const Node> node, int64_t constant)
    : node_(std::move(node)), constant_(constant) {}

Dim Dim::Node::make(std::vector<Term> terms, int64_t constant) {
  if (terms.empty()) return constant;
  auto node = std::make_shared<Node>();
  for (const Term& term : terms) {
    ++node->size;
    for (const AtomRef& factor : term.factors) {
      node->size = std::min(node->size + factor->size, 2 * kMaxSize);
      node->depth = std::max(node->depth, factor->depth);
    }
  }
  check_size(node->size, node->depth);
  node->terms = std::move(terms);
  return Dim(std::move(node), constant);
}

Dim Dim::Node::from_atom(AtomRef atom) { return make({Term{1, {std::move(atom)}}}, 0); }

std::span<const Term> Dim::Node::terms_of(const Dim& dim) {
  return dim.node_ ? std::span<const Term>(dim.node_->terms) : std::span<const Term>();
}

Dim Dim::Node::with_constant(const Dim& dim, int64_t constant) { return Dim(dim.node_, constant); }

Dim apply(Dim::Func func, std::vector<Dim> args) {
  auto atom = std::make_shared<Atom>();
  atom->func = func;
  for (const Dim& arg : args) {
    for (const Term& term : Dim::Node::terms_of(arg)) {
      for (const AtomRef& factor : term.factors) {
        atom->size += factor->size + 1;
        atom->depth = std::max(atom->depth, factor->depth);
      }
    }
    atom->size = std::min(atom->size + 1, 2 * kMaxSize);
  }
  ++atom->depth;
  check_size(atom->size, atom->depth);
  atom->args = std::move(args);
  return Dim::Node::from_atom(std::move(atom));
}

const Atom* as_function(const Dim& dim, Dim::Func func) {
  const auto terms = Dim::Node::terms_of(dim);
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) {
    return nullptr;
  }
  const Atom& atom = *terms[0].factors[0];
  return !atom.symbol && atom.func == func ? &atom : nullptr;
}

int compare_atoms(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.symbol && b.symbol) return a.symbol->name.compare(b.symbol->name);
  if (a.symbol || b.symbol) return a.symbol ? -1 : 1;
  if (a.func != b.func) return a.func < b.func ? -1 : 1;
  if (a.args.size() != b.args.size()) return a.args.size() < b.args.size() ? -1 : 1;
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (const int order = Dim::compare(a.args[i], b.args[i])) return order;
  }
  return 0;
}

int compare_monomials(const std::vector<AtomRef>& a, const std::vector<AtomRef>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const int order = compare_atoms(*a[i], *b[i])) return order;
  }
  return 0;
}

int Dim::compare(const Dim& a, const Dim& b) {
  if (a.node_ != b.node_) {
    const auto x = Node::terms_of(a);
    const auto y = Node::terms_of(b);
    if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
    for (size_t i = 0; i < x.size(); ++i) {
      if (const int order = compare_monomials(x[i].factors, y[i].factors)) return order;
      if (x[i].coefficient != y[i].coefficient) {
        return x[i].coefficient < y[i].coefficient ? -1 : 1;
      }
    }
  }
  if (a.constant_ == b.constant_) return 0;
  return a.constant_ < b.constant_ ? -1 : 1;
}

bool operator==(const Dim& a, const Dim& b) { return Dim::compare(a, b) == 0; }

bool Dim::is_constant() const { return node_ == nullptr; }

std::optional<int64_t> Dim::constant() const {
  return node_ ? std::nullopt : std::optional(constant_);
}

SymbolRef Dim::as_symbol() const {
  if (!node_ || constant_ != 0 || node_->terms.size() != 1) return nullptr;
  const Term& term = node_->terms[0];
  return term.coefficient == 1 && term.factors.size() == 1 ? term.factors[0]->symbol : nullptr;
}

Dim operator+(const Dim& a, const Dim& b) {
  const int64_t constant = add_checked(a.constant_, b.constant_, a, b);
  if (!b.node_) return Dim(a.node_, constant);
  if (!a.node_) return Dim(b.node_, constant);
  std::vector<Term> terms = a.node_->terms;
  terms.insert(terms.end(), b.node_->terms.begin(), b.node_->terms.end());
  return Dim::Node::make(collect_terms(std::move(terms), a, b), constant);
}

Dim operator-(const Dim& a, const Dim& b) {
  if (b.node_) return a + scale(b, -1);
  int64_t difference = 0;
  if (__builtin_sub_overflow(a.constant_, b.constant_, &difference)) fail_overflow(a, '-', b);
  return Dim(a.node_, difference);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.node_ && !b.node_) return multiply_checked(a.constant_, b.constant_, a, b);
  if (!a.node_) return scale(b, a.constant_);
  if (!b.node_) return scale(a, b.constant_);
  const size_t products = a.node_->terms.size() * b.node_->terms.size();
  check(products <= kMaxProducts, ErrorKind::unsupported,
        "product of two dims has {} terms, at most {} are supported", products, kMaxProducts);
  std::vector<Term> terms;
  for (const Term& x : a.node_->terms) {
    for (const Term& y : b.node_->terms) {
      Term& term = terms.emplace_back();
      term.coefficient = multiply_checked(x.coefficient, y.coefficient, a, b);
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(),
                 std::back_inserter(term.factors),
                 [](const AtomRef& l, const AtomRef& r) { return compare_atoms(*l, *r) < 0; });
    }
  }
  const Dim product = Dim::Node::make(collect_terms(std::move(terms), a, b), 0);
  return product + scale(Dim(a.node_, 0), b.constant_) + scale(b, a.constant_);
}

std::optional<int64_t> checked_floor_div(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::optional<int64_t> checked_mod(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

std::optional<int64_t> Dim::evaluate(
    const std::function<std::optional<int64_t>(const Symbol&)>& values) const {
  int64_t sum = constant_;
  for (const Term& term : Node::terms_of(*this)) {
    int64_t product = term.coefficient;
    for (const AtomRef& factor : term.factors) {
      const std::optional<int64_t> value = evaluate_atom(*factor, values);
      if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  if (!node_ || replacements.empty()) return *this;
  Dim sum = constant_;
  for (const Term& term : node_->terms) {
    Dim product = term.coefficient;
    for (const AtomRef& factor : term.factors) {
      product = product * substitute_atom(factor, replacements);
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::collect_symbols(std::vector<SymbolRef>& out) const {
  for (const Term& term : Node::terms_of(*this)) {
    for (const AtomRef& factor : term.factors) {
      for (const Dim& arg : factor->args) arg.collect_symbols(out);
      if (!factor->symbol) continue;
      const bool is_known = std::any_of(out.begin(), out.end(), [&](const SymbolRef& known) {
        return known->name == factor->symbol->name;
      });
      if (!is_known) out.push_back(factor->symbol);
    }
  }
}

}  // namespace lathe
