// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "tensor/tensor.h"

namespace lathe {
namespace {

// One loop of a copy: iterations, and strides in elements.
struct Loop {
  int64_t extent = 1;
  int64_t from = 0;
  int64_t to = 0;
};

// The loops of a copy, outermost first, merged where strides allow.
struct LoopNest {
  std::array<Loop, kMaxRank> loops;
  int depth = 0;
};

LoopNest make_loops(const TensorView& from, const TensorView& to) {
  LoopNest nest;
  for (int i = 0; i < from.rank; ++i) {
    if (from.dims[i] == 1) continue;
    // In the destination's memory order: strided reads cost less than strided writes.
    int place = nest.depth++;
    for (; place > 0 && std::abs(nest.loops[place - 1].to) < std::abs(to.strides[i]); --place) {
      nest.loops[place] = nest.loops[place - 1];
    }
    nest.loops[place] = {from.dims[i], from.strides[i], to.strides[i]};
  }
  int merged = 0;
  for (int i = 0; i < nest.depth; ++i) {
    const Loop inner = nest.loops[i];
    if (merged > 0) {
      Loop& outer = nest.loops[merged - 1];
      if (outer.from == inner.from * inner.extent && outer.to == inner.to * inner.extent) {
        outer = {outer.extent * inner.extent, inner.from, inner.to};
        continue;
      }
    }
    nest.loops[merged++] = inner;
  }
  nest.depth = merged;
  return nest;
}

template <class T>
void copy_row(const T* from, T* to, const Loop& loop) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (loop.from == 1 && loop.to == 1) {
      std::memcpy(to, from, static_cast<size_t>(loop.extent) * sizeof(T));
      return;
    }
  }
  for (int64_t i = 0; i < loop.extent; ++i) to[i * loop.to] = from[i * loop.from];
}

template <class T>
void copy_loops(const T* from, T* to, const LoopNest& nest) {
  if (nest.depth == 0) {
    *to = *from;
    return;
  }
  const Loop& row = nest.loops[nest.depth - 1];
  std::array<int64_t, kMaxRank> index{};
  while (true) {
    copy_row(from, to, row);
    int level = nest.depth - 2;
    for (; level >= 0; --level) {
      const Loop& loop = nest.loops[level];
      if (++index[level] < loop.extent) {
        from += loop.from;
        to += loop.to;
        break;
      }
      index[level] = 0;
      from -= loop.from * (loop.extent - 1);
      to -= loop.to * (loop.extent - 1);
    }
    if (level < 0) return;
  }
}

// One element of any type and alignment: byte arrays may alias any type.
template <size_t kBytes>
struct Bytes {
  std::byte bytes[kBytes];
};

template <class T>
void copy_as(const TensorView& from, const TensorView& to) {
  copy_loops(from.as<const T>(), to.as<T>(), make_loops(from, to));
}

}  // namespace

void copy_elements(const TensorView& from, const TensorView& to) {
  if (from.type != to.type || !std::ranges::equal(from.extents(), to.extents())) {
    fail(ErrorKind::internal, "cannot copy {} to {}: expected equal types and shapes",
         to_string(from.type, from.extents()), to_string(to.type, to.extents()));
  }
  const int64_t count = from.count();
  if (count == 0) return;
  if (from.type == ElementType::string) return copy_as<std::string>(from, to);
  if (from.is_dense() && to.is_dense()) {
    std::memcpy(to.data, from.data, static_cast<size_t>(bytes_for(from.type, count)));
    return;
  }
  switch (info(from.type).bits) {
    case 8:
      return copy_as<Bytes<1>>(from, to);
    case 16:
      return copy_as<Bytes<2>>(from, to);
    case 32:
      return copy_as<Bytes<4>>(from, to);
    case 64:
      return copy_as<Bytes<8>>(from, to);
    case 128:
      return copy_as<Bytes<16>>(from, to);
    default:
      fail(ErrorKind::internal, "cannot copy {}: elements below 8 bits must be dense",
           to_string(from.type, from.extents()));
  }
}

}  // namespace lathe
