// SPDX-License-Identifier: MIT
// Dims: integers or expressions over symbols, kept in one canonical form.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// Bound: read from the shapes of a module's inputs. Length: the fill of a state. Found:
// data-dependent, defined by an instruction when it runs.
enum class SymbolKind : uint8_t { bound, length, found };

// Closed interval of a dim's values; arithmetic saturates at ±kUnbounded.
struct Range {
  int64_t min = 0;
  int64_t max = kUnbounded;
  friend bool operator==(const Range&, const Range&) = default;
};

struct Symbol {
  std::string name;  // unique in its program; identifies the symbol
  SymbolKind kind = SymbolKind::bound;
  Range range;
  std::vector<int64_t> preferred;  // sizes worth a specialised variant, ascending
};
using SymbolRef = std::shared_ptr<const Symbol>;

enum class Ternary : uint8_t { no, unknown, yes };

// A polynomial with integer coefficients over atoms; an atom is a symbol or one of floor_div,
// ceil_div, mod, min, max, bcast of dims. Equal canonical forms have equal values: "(a + b) * 2"
// and "2 * b + a * 2" are the same Dim. Immutable; copies are cheap, and constants do not allocate.
// Operations throw Error(unsupported) if a constant or coefficient does not fit in 64 bits or the
// expression is too large, Error(invalid_argument) for a division by the constant zero and for a
// broadcast of different constants.
class Dim {
 public:
  enum class Func : uint8_t { floor_div, ceil_div, mod, min, max, bcast };

  Dim(int64_t value = 0);  // NOLINT: integers are dims
  Dim(SymbolRef symbol);   // NOLINT: symbols are dims

  bool is_constant() const;
  std::optional<int64_t> constant() const;
  // The symbol, if this dim is a single symbol; else null.
  SymbolRef as_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);  // same canonical form
  // A total order over canonical forms, for sorting and maps.
  static int compare(const Dim& a, const Dim& b);

  // floor_div rounds to minus infinity, ceil_div to plus infinity; mod has the divisor's sign.
  // Rules and ranges simplify: floor_div(4*a + r, 4) = a + floor_div(r, 4), (a*b + b) / (a + 1) =
  // b, ceil_div by a constant becomes floor_div, min and max drop dominated arguments.
  static Dim floor_div(const Dim& a, const Dim& b);
  static Dim ceil_div(const Dim& a, const Dim& b);
  static Dim mod(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);
  // The size of an axis of a and b broadcast together: the one that is not 1. bcast(a, a) = a,
  // bcast(a, 1) = a, bcast(a, k) = k for a constant k > 1 (the caller must check a ∈ {1, k}), and
  // bcast(a, min(a, k)) = a.
  // Commutative and associative.
  static Dim bcast(const Dim& a, const Dim& b);

  Range range() const;  // by interval arithmetic over the symbols' ranges
  // range() with other ranges of the symbols (capacity buckets).
  Range range_under(const std::function<Range(const Symbol&)>& ranges) const;

  // The value for the given values of the symbols; nullopt if a symbol is unknown, on division by
  // zero or overflow, and for a bcast of different sizes other than 1.
  std::optional<int64_t> evaluate(
      const std::function<std::optional<int64_t>(const Symbol&)>& values) const;
  // Replaces symbols, by name, by dims.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  // Appends every symbol once, in order of first occurrence.
  void collect_symbols(std::vector<SymbolRef>& out) const;

  // "4", "batch", "2*batch*heads + past - 1", "floor_div(length + 1, 2)".
  std::string to_string() const;
  // Inverse of to_string(). `lookup` maps a name to its symbol, or null. A syntax error is an
  // Error(InvalidArgument) whose message ends with " at offset N".
  static Dim parse(std::string_view text, const std::function<SymbolRef(std::string_view)>& lookup);

  struct Node;  // canonical form; dim_node.h

 private:
  explicit Dim(std::shared_ptr<const Node> node, int64_t constant);
  std::shared_ptr<const Node> node_;  // null for constants
  int64_t constant_ = 0;
};

// Equality for all values of the symbols within their ranges: yes if the canonical forms are equal,
// no if the difference provably is never zero, else unknown.
Ternary equal(const Dim& a, const Dim& b);
// Yes: a <= b for all values of the symbols; no: a > b for all values; else unknown.
Ternary less_equal(const Dim& a, const Dim& b);

}  // namespace lathe
