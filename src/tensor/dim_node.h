// SPDX-License-Identifier: MIT
// The canonical form behind Dim; for the dim_*.cpp files only.
#pragma once

#include <span>
#include <vector>

#include "tensor/dim.h"

namespace lathe {

// A symbol, or a function of dims that no rule could simplify further.
struct Atom {
  SymbolRef symbol;  // null for functions
  Dim::Func func = Dim::Func::floor_div;
  std::vector<Dim> args;  // two; min, max and bcast have two or more, ascending
  int size = 1;           // atoms and terms inside, as a tree
  int depth = 0;          // of nested functions
};
using AtomRef = std::shared_ptr<const Atom>;

// A product of atoms with an integer.
struct Term {
  int64_t coefficient = 1;
  std::vector<AtomRef> factors;  // ascending, repeated for powers, at least one
};

// The terms of a polynomial without its constant, which stands in the Dim: a and a + 1 share one
// node. Terms are in descending graded lexicographic order, none has the coefficient zero.
struct Dim::Node {
  std::vector<Term> terms;
  int size = 0;
  int depth = 0;

  // Terms must be in order; fails where the expression gets larger than anyone could want.
  static Dim make(std::vector<Term> terms, int64_t constant);
  static Dim from_atom(AtomRef atom);
  static std::span<const Term> terms_of(const Dim& dim);
  static int64_t constant_of(const Dim& dim) { return dim.constant_; }
  // The same terms with another constant.
  static Dim with_constant(const Dim& dim, int64_t constant);
};

// The function `func` of `args` as it stands, without simplification.
Dim apply(Dim::Func func, std::vector<Dim> args);
// The function and arguments if `dim` is nothing but one function (plus its constant term).
const Atom* as_function(const Dim& dim, Dim::Func func);
std::string_view to_string(Dim::Func func);

int compare_atoms(const Atom& a, const Atom& b);
// Graded lexicographic: higher degree first. It respects multiplication, as polynomial division
// needs.
int compare_monomials(const std::vector<AtomRef>& a, const std::vector<AtomRef>& b);

// Nullopt for a division by zero or an overflow.
std::optional<int64_t> checked_floor_div(int64_t a, int64_t b);
std::optional<int64_t> checked_mod(int64_t a, int64_t b);

// The range of one function, given its arguments' ranges.
Range function_range(Dim::Func func, std::span<const Range> args);

}  // namespace lathe
