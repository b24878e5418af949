// SPDX-License-Identifier: MIT
#include "ops/index_map.h"

#include "base/error.h"
#include "ops/op_origin.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

// '$' keeps the names apart from those of programs.
SymbolRef variable(std::string name, Range range) {
  return std::make_shared<Symbol>(Symbol{std::move(name), SymbolKind::bound, range, {}});
}

AffineIndex inexact() {
  AffineIndex index;
  index.exact = false;
  return index;
}

// Wraps around like the strides of an empty view, instead of overflowing.
int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

int MappedInstruction::length(int i) const {
  const Type& type = instruction_.operands()[static_cast<size_t>(i)]->type();
  if (!type.is_ranked() || type.rank() != 1) return -1;
  return static_cast<int>(type.dims->front().constant().value_or(-1));
}
bool MappedInstruction::boolean(std::string_view name) const {
  return required_attribute<bool>(instruction_, name);
}
const std::string& MappedInstruction::text(std::string_view name) const {
  return required_attribute<std::string>(instruction_, name);
}
const Integers& MappedInstruction::integers(std::string_view name) const {
  return required_attribute<Integers>(instruction_, name);
}
int64_t MappedInstruction::integer(std::string_view name) const {
  return required_attribute<int64_t>(instruction_, name);
}

SymbolicMap::SymbolicMap(const Instruction& instruction, int result)
    : MappedInstruction(instruction, result) {
  const Type& type = instruction.result(result)->type();
  known_ = type.is_tensor() && type.is_ranked();
  for (const Value* operand : instruction.operands()) {
    known_ = known_ &&
             (operand == nullptr || (operand->type().is_tensor() && operand->type().is_ranked()));
  }
  if (!known_) return;
  for (size_t axis = 0; axis < type.dims->size(); ++axis) {
    const int64_t most = (*type.dims)[axis].range().max;
    variables_.push_back(
        variable(fmt::format("$i{}", axis),
                 {0, most == kUnbounded ? kUnbounded : std::max<int64_t>(most - 1, 0)}));
  }
  try {
    instruction.op().map.symbolic(*this);
  } catch (const Error& error) {
    // An index with large constants may not fit in a dim.
    if (error.kind() != ErrorKind::unsupported) throw;
    known_ = false;
  }
}

Dim SymbolicMap::index(int axis) const {
  if (result_extent(axis) == Dim(1)) return 0;
  return variables_[static_cast<size_t>(axis)];
}

SymbolicMap::Coordinates SymbolicMap::indices() const {
  Coordinates all;
  for (int axis = 0; axis < result_rank(); ++axis) all.push_back(index(axis));
  return all;
}

const Dim& SymbolicMap::extent(int operand, int axis) const {
  const Type& type = instruction_.operands()[static_cast<size_t>(operand)]->type();
  return (*type.dims)[static_cast<size_t>(axis)];
}

const Dim& SymbolicMap::result_extent(int axis) const {
  return (*instruction_.result(result_)->type().dims)[static_cast<size_t>(axis)];
}

Dim SymbolicMap::value(int operand, int k) {
  const Value* value = instruction_.operands()[static_cast<size_t>(operand)];
  if (value->elements()) return (*value->elements())[static_cast<size_t>(k)];
  if (value->type().rank() == 0) return element(operand, {});
  return element(operand, {Dim(k)});
}

Dim SymbolicMap::element(int operand, Coordinates from) {
  const SymbolRef symbol =
      variable(fmt::format("$e{}", elements_.size()), {-kUnbounded, kUnbounded});
  elements_.push_back({symbol, operand, std::move(from)});
  return symbol;
}

void SymbolicMap::read(int operand, Coordinates from, std::vector<Dim> conditions) {
  reads_.push_back({operand, std::move(from), std::move(conditions)});
}

AffineIndex operator+(AffineIndex a, const AffineIndex& b) {
  if (!a.exact || !b.exact || (a.axis >= 0 && b.axis >= 0)) return inexact();
  a.offset = add(a.offset, b.offset);
  if (b.axis >= 0) {
    a.axis = b.axis;
    a.step = b.step;
  }
  return a;
}

AffineIndex operator-(const AffineIndex& a, AffineIndex b) { return a + b * AffineIndex(-1); }

AffineIndex operator*(AffineIndex a, const AffineIndex& b) {
  if (!a.exact || !b.exact || (a.axis >= 0 && b.axis >= 0)) return inexact();
  if (b.axis >= 0) return b * a;
  a.offset = multiply(a.offset, b.offset);
  a.step = multiply(a.step, b.offset);
  return a;
}

namespace {

template <class F>
AffineIndex folded(const AffineIndex& a, const AffineIndex& b, F&& f) {
  return a.is_constant() && b.is_constant() ? AffineIndex(f(a.offset, b.offset)) : inexact();
}

}  // namespace

AffineIndex AffineMap::min(const AffineIndex& a, const AffineIndex& b) {
  return folded(a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
}
AffineIndex AffineMap::max(const AffineIndex& a, const AffineIndex& b) {
  return folded(a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
}
AffineIndex AffineMap::ceil_div(const AffineIndex& a, const AffineIndex& b) {
  return folded(a, b, [](int64_t x, int64_t y) { return (x + y - 1) / y; });
}
AffineIndex AffineMap::mod(const AffineIndex& a, const AffineIndex& b) {
  return folded(a, b, [](int64_t x, int64_t y) { return y == 0 ? 0 : ((x % y) + y) % y; });
}

AffineIndex AffineMap::index(int axis) const {
  AffineIndex index;
  index.axis = axis;
  index.step = 1;
  return index;
}

AffineMap::Coordinates AffineMap::indices() const {
  Coordinates all;
  for (int axis = 0; axis < request_.result.rank; ++axis) all.push_back(index(axis));
  return all;
}

AffineMap::Coordinates AffineMap::coordinates(int operand) const {
  Coordinates all;
  for (int axis = 0; axis < rank(operand); ++axis) all.push_back(0);
  return all;
}

AffineIndex AffineMap::extent(int operand, int axis) {
  if (operand == 0) return request_.operand.dims[static_cast<size_t>(axis)];
  stop();
  return 0;
}

AffineIndex AffineMap::value(int operand, int k) {
  const auto known = request_.known(operand);
  if (request_.is_known(operand) && static_cast<size_t>(k) < known.size())
    return known[static_cast<size_t>(k)];
  stop();
  return 0;
}

bool AffineMap::make_view() {
  instruction_.op().map.affine(*this);
  const TensorView& x = request_.operand;
  if (!known_ || reads_ != 1 || from_.size() != static_cast<size_t>(x.rank)) return false;
  TensorView view = request_.result;
  std::fill_n(view.strides.begin(), view.rank, 0);
  int64_t offset = 0;
  for (size_t axis = 0; axis < from_.size(); ++axis) {
    const AffineIndex& from = from_[axis];
    if (!from.exact) return false;
    offset = add(offset, multiply(from.offset, x.strides[axis]));
    if (from.axis < 0) continue;
    int64_t& stride = view.strides[static_cast<size_t>(from.axis)];
    stride = add(stride, multiply(from.step, x.strides[axis]));
  }
  view.data = x.data;
  // Elements of less than a byte are viewed in place or not at all.
  if (is_packed(x.type)) {
    if (offset != 0 || view.count() != x.count() || !view.is_dense()) return false;
  } else {
    view = shifted(view, offset);
  }
  request_.result = view;
  return true;
}

bool affine_view(ViewRequest& v) { return AffineMap(v).make_view(); }

// Both shapes are cut where the products of the sizes before are equal, and each group is
// flattened by itself: sizes of other groups do not matter, and may be symbols.
void map_reshaped(SymbolicMap& m) {
  const int from_rank = m.rank(0);
  const int to_rank = m.result_rank();
  auto from = m.coordinates(0);
  for (int axis = 0; axis < from_rank; ++axis) {
    if (m.extent(0, axis) == Dim(0)) return m.read(0, std::move(from));  // no element is read
  }
  int begin = 0;  // of the group, among the operand's axes
  int to = 0;     // among the result's axes
  while (begin < from_rank) {
    // The smallest group from `begin` and `to` on whose products are equal.
    int end = begin;
    int to_end = to;
    for (bool found = false; !found && end < from_rank;) {
      Dim product = 1;
      for (int axis = begin; axis <= end; ++axis) product = product * m.extent(0, axis);
      ++end;
      Dim other = 1;
      for (to_end = to; !found;) {
        found = other == product;
        if (found || to_end == to_rank) break;
        other = other * m.result_extent(to_end++);
      }
      if (!found && end == from_rank) return m.stop();
    }
    Dim flat = 0;
    for (int axis = to; axis < to_end; ++axis) flat = flat * m.result_extent(axis) + m.index(axis);
    int first = begin;
    while (first < end && m.extent(0, first) == Dim(1)) ++first;
    Dim below = 1;
    for (int axis = end - 1; axis >= first; --axis) {
      const Dim& extent = m.extent(0, axis);
      // An axis of size 1 has one index; one of size 0 is never read.
      if (extent == Dim(1) || extent == Dim(0)) continue;
      const Dim here = Dim::floor_div(flat, below);
      // The first axis of a group needs no remainder: the flat index is within the group.
      from[static_cast<size_t>(axis)] = axis == first ? here : Dim::mod(here, extent);
      below = below * extent;
    }
    begin = end;
    to = to_end;
  }
  m.read(0, std::move(from));
}

}  // namespace lathe
