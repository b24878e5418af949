// SPDX-License-Identifier: MIT
// Moves elements between tensors of any strides and registers, with conversion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "ir/expr.h"
#include "tensor/tensor.h"

namespace lathe::interpret {

// Shape of a computed result, row-major; axes are merged where every tensor's strides allow it.
struct Layout {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  int64_t count() const;
};

// A tensor broadcast to a layout.
struct Access {
  std::byte* data = nullptr;
  ElementType type = ElementType::f32;
  bool scalar = false;                      // one element for all of the layout
  bool linear = false;                      // element i of the layout is element i of memory
  std::array<int64_t, kMaxRank> strides{};  // by the layout's axes; 0 where broadcast
};

// The accesses of one launch. Unlike an array it begins without contents, whose kilobytes would
// take longer to fill than a small launch takes.
template <size_t kMost>
class AccessList {
 public:
  AccessList() {}
  void add(const Access& access) { std::construct_at(slots_.data() + count_++, access); }
  std::span<Access> all() { return {slots_.data(), count_}; }

 private:
  static_assert(std::is_trivially_destructible_v<Access>);
  union {
    std::array<Access, kMost> slots_;
  };
  size_t count_ = 0;
};

// Strides of `view`, which is operand `operand`, over the last axes of `out`; 0 where broadcast.
// InvalidArgument if it does not broadcast.
Access access_to(const TensorView& view, const TensorView& out, int operand);
// Orders the axes by the strides of the last access, the result's, drops those of size 1, merges
// adjacent ones that are contiguous in every tensor, and classifies.
void collapse(Layout& layout, std::span<Access> all);

// The element type with the memory format of a register.
ElementType register_type(ExprType type);

// Sets `scalar` and `linear` from the strides.
void classify(const Layout& layout, Access& access);

// How load() and store() convert elements; by default with lathe::convert().
struct Converter {
  void (*function)(const void* context, ElementType to, void* dst, ElementType from,
                   const void* src, int64_t count) = nullptr;
  const void* context = nullptr;
  void operator()(ElementType to, void* dst, ElementType from, const void* src,
                  int64_t count) const;
};

// Elements first … first + count - 1 of the layout as a register of `type`: their own memory if a
// kernel can read `whole` elements there, else `buffer`.
const std::byte* load(const Layout& layout, const Access& access, ExprType type, int64_t first,
                      int64_t count, std::byte* buffer, const Converter& convert = {});
// direct_output: memory to which a kernel may write elements first …; null: write to a register and
// store() it.
std::byte* direct_output(const Access& access, ExprType type, int64_t first, int64_t count);
void store(const Layout& layout, const Access& access, ExprType type, int64_t first, int64_t count,
           const std::byte* values, const Converter& convert = {});

// Largest chunk, in elements.
inline constexpr int64_t kMaxChunk = 512;

}  // namespace lathe::interpret
