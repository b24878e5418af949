// SPDX-License-Identifier: MIT
// The canonical form of Dim; for the dim_*.cpp files and for compilers of dims.
#pragma once

#include <span>
#include <vector>

#include "tensor/dim.h"

namespace lathe {

// A symbol, or a function of dims in simplest form.
struct Atom {
  SymbolRef symbol;  // null for functions
  Dim::Func func = Dim::Func::floor_div;
  std::vector<Dim> args;  // two; min, max and bcast have two or more, ascending
  int size = 1;           // atoms and terms of the tree
  int depth = 0;          // nesting of functions
};
using AtomRef = std::shared_ptr<const Atom>;

// An integer times a product of atoms.
struct Term {
  int64_t coefficient = 1;
  std::vector<AtomRef> factors;  // ascending, repeated for powers, at least one
};

// The terms of a polynomial. Dim stores its constant, so that a and a + 1 share one node. Terms are
// in descending graded lexicographic order and have nonzero coefficients.
struct Dim::Node {
  std::vector<Term> terms;
  int size = 0;
  int depth = 0;

  // Terms must be in order. Unsupported if the expression exceeds the size limit.
  static Dim make(std::vector<Term> terms, int64_t constant);
  static Dim from_atom(AtomRef atom);
  static std::span<const Term> terms_of(const Dim& dim);
  static int64_t constant_of(const Dim& dim) { return dim.constant_; }
  // `dim` with another constant.
  static Dim with_constant(const Dim& dim, int64_t constant);
};

// func(args), without simplification.
Dim apply(Dim::Func func, std::vector<Dim> args);
// The atom of `dim` if it is one call of `func` plus a constant; else null.
const Atom* as_function(const Dim& dim, Dim::Func func);
std::string_view to_string(Dim::Func func);

int compare_atoms(const Atom& a, const Atom& b);
// Graded lexicographic order, higher degree first. Multiplication preserves it, as polynomial
// division requires.
int compare_monomials(const std::vector<AtomRef>& a, const std::vector<AtomRef>& b);

// nullopt on division by zero or overflow.
std::optional<int64_t> checked_floor_div(int64_t a, int64_t b);
std::optional<int64_t> checked_mod(int64_t a, int64_t b);

// The range of func, from the ranges of its arguments.
Range function_range(Dim::Func func, std::span<const Range> args);

}  // namespace lathe
