// SPDX-License-Identifier: MIT
// Index maps: for an op that only moves elements, the operand and index from which each element of
// a result comes. An op states its map once, as a generic function:
//
//   .map = [](auto& m) {
//     auto from = m.coordinates(0);
//     for (int axis = 0; axis < m.rank(0); ++axis) from[m.rank(0) - 1 - axis] = m.index(axis);
//     m.read(0, from);  // result[i, j] = operand 0 [j, i]
//   },
//
// It is instantiated twice: with SymbolicMap, where an index is a dim over variables, when the
// program is compiled; and with AffineMap, which computes a strided view, when it runs. Both have:
//
//   index(axis), extent(operand, axis), result_extent(axis), value(operand, k): indices
//   element(operand, coordinates): an element of an integer operand, as an index
//   read(operand, coordinates, conditions): where conditions >= 0 hold, the element is there;
//     the first of several reads whose conditions hold counts
//   read_zero(): elsewhere, it is zero
//   stop(): the map is not known
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "ops/evaluation.h"
#include "ops/support/small_vector.h"

namespace lathe {

// Attributes and operands of the instruction of a map.
class MappedInstruction {
 public:
  MappedInstruction(const Instruction& instruction, int result)
      : instruction_(instruction), result_(result) {}

  int result() const { return result_; }
  int results() const { return static_cast<int>(instruction_.results().size()); }
  int count() const { return static_cast<int>(instruction_.operands().size()); }
  bool has(int i) const {
    return i < count() && instruction_.operands()[static_cast<size_t>(i)] != nullptr;
  }
  int rank(int i) const { return instruction_.operands()[static_cast<size_t>(i)]->type().rank(); }
  int result_rank() const { return instruction_.result(result_)->type().rank(); }
  // The constant number of elements of a rank-1 operand, or -1.
  int length(int i) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  // An axis in [-rank, rank), normalised to [0, rank).
  int axis(std::string_view attribute, int rank) const {
    const int64_t axis = integer(attribute);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }

 protected:
  const Instruction& instruction_;
  int result_;
};

// A map over symbols.
class SymbolicMap : public MappedInstruction {
 public:
  using Index = Dim;
  using Coordinates = std::vector<Dim>;
  // Where all conditions are at least 0, an element of `operand`, or zero if that is -1.
  struct Read {
    int operand = -1;
    Coordinates from;
    std::vector<Dim> conditions;
  };
  // The symbol is an element of an integer operand.
  struct Element {
    SymbolRef symbol;
    int operand = 0;
    Coordinates from;
  };

  // The map of one result of an instruction whose op has a map.
  SymbolicMap(const Instruction& instruction, int result);

  bool is_known() const { return known_; }
  const std::vector<SymbolRef>& variables() const { return variables_; }  // one per result axis
  const std::vector<Read>& reads() const { return reads_; }
  const std::vector<Element>& elements() const { return elements_; }

  // The variable, or 0 for an axis of size 1.
  Dim index(int axis) const;
  Coordinates indices() const;
  Coordinates coordinates(int operand) const {
    return Coordinates(static_cast<size_t>(rank(operand)));
  }
  const Dim& extent(int operand, int axis) const;
  const Dim& result_extent(int axis) const;
  Dim value(int operand, int k);
  Dim element(int operand, Coordinates from);
  void read(int operand, Coordinates from, std::vector<Dim> conditions = {});
  void read_zero() { reads_.push_back({}); }
  void stop() { known_ = false; }

  static bool same(const Dim& a, const Dim& b) { return a == b; }
  static bool at_least(const Dim& a, const Dim& b) { return less_equal(b, a) == Ternary::yes; }
  static std::optional<int64_t> constant(const Dim& index) { return index.constant(); }
  static Dim min(const Dim& a, const Dim& b) { return Dim::min(a, b); }
  static Dim max(const Dim& a, const Dim& b) { return Dim::max(a, b); }
  static Dim ceil_div(const Dim& a, const Dim& b) { return Dim::ceil_div(a, b); }
  static Dim mod(const Dim& a, const Dim& b) { return Dim::mod(a, b); }

 private:
  bool known_ = true;
  std::vector<SymbolRef> variables_;
  std::vector<Read> reads_;
  std::vector<Element> elements_;
};

// offset + step · (index of one axis of the result), or not of this form.
struct AffineIndex {
  AffineIndex(int64_t value = 0) : offset(value) {}  // NOLINT: integers are indices
  int64_t offset;
  int64_t step = 0;
  int axis = -1;
  bool exact = true;
  bool is_constant() const { return exact && axis < 0; }

  friend AffineIndex operator+(AffineIndex a, const AffineIndex& b);
  friend AffineIndex operator-(const AffineIndex& a, AffineIndex b);
  friend AffineIndex operator*(AffineIndex a, const AffineIndex& b);
};

// A map with the sizes of one run. It becomes a view if it is a single read of operand 0.
class AffineMap : public MappedInstruction {
 public:
  using Index = AffineIndex;
  using Coordinates = SmallVector<AffineIndex>;

  explicit AffineMap(ViewRequest& request)
      : MappedInstruction(*request.instruction, request.index), request_(request) {}
  // Sets the strides and data of the request's result; false if the map is no view.
  bool make_view();

  AffineIndex index(int axis) const;
  Coordinates indices() const;
  Coordinates coordinates(int operand) const;
  AffineIndex extent(int operand, int axis);
  AffineIndex result_extent(int axis) const {
    return request_.result.dims[static_cast<size_t>(axis)];
  }
  AffineIndex value(int operand, int k);
  AffineIndex element(int, const Coordinates&) {
    stop();
    return 0;
  }
  void read(int operand, const Coordinates& from) {
    if (operand != 0 || reads_++ > 0) stop();
    from_ = from;
  }
  void read(int, const Coordinates&, std::initializer_list<AffineIndex>) { stop(); }
  void read(int, const Coordinates&, const std::vector<AffineIndex>&) { stop(); }
  void read_zero() { stop(); }
  void stop() { known_ = false; }

  static bool same(const AffineIndex& a, const AffineIndex& b) {
    return a.is_constant() && b.is_constant() && a.offset == b.offset;
  }
  static bool at_least(const AffineIndex& a, const AffineIndex& b) {
    return a.is_constant() && b.is_constant() && a.offset >= b.offset;
  }
  static std::optional<int64_t> constant(const AffineIndex& index) {
    return index.is_constant() ? std::optional(index.offset) : std::nullopt;
  }
  static AffineIndex min(const AffineIndex& a, const AffineIndex& b);
  static AffineIndex max(const AffineIndex& a, const AffineIndex& b);
  static AffineIndex ceil_div(const AffineIndex& a, const AffineIndex& b);
  static AffineIndex mod(const AffineIndex& a, const AffineIndex& b);

 private:
  ViewRequest& request_;
  Coordinates from_;
  int reads_ = 0;
  bool known_ = true;
};

// `view` function of ops whose map is affine.
bool affine_view(ViewRequest& v);

// An index that counts from the end of the axis if it is negative.
template <class M>
typename M::Index wrapped(M&, const typename M::Index& value, const typename M::Index& extent) {
  using Index = typename M::Index;
  if (M::at_least(value, 0)) return value;
  if (M::at_least(-1, value)) return value + extent;
  const Index is_negative = M::min(1, M::max(0, Index(0) - value));
  return value + extent * is_negative;
}

// Map of an op whose result has the elements of operand 0 in the same order, with another shape.
void map_reshaped(SymbolicMap& m);
inline void map_reshaped(AffineMap& m) { m.stop(); }

}  // namespace lathe
