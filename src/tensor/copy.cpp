// SPDX-License-Identifier: MIT
#include "tensor/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/thread_pool.h"

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
  // The two innermost loops transpose: the last writes contiguously, the one before reads so.
  bool transposes = false;
};

// If the last loop reads with a stride and another with a smaller one, moves that before it.
void find_transpose(LoopNest& nest) {
  constexpr int64_t kLeast = 4;  // iterations that are worth a tile
  if (nest.depth < 2) return;
  Loop& last = nest.loops[nest.depth - 1];
  int best = -1;
  for (int i = 0; i + 1 < nest.depth; ++i) {
    const Loop& loop = nest.loops[i];
    const bool reads_closer = std::abs(loop.from) < std::abs(last.from) && loop.from != 0;
    if (!reads_closer || loop.extent < kLeast) continue;
    if (best < 0 || std::abs(loop.from) < std::abs(nest.loops[best].from)) best = i;
  }
  if (best < 0 || last.extent < kLeast) return;
  std::rotate(nest.loops.begin() + best, nest.loops.begin() + best + 1,
              nest.loops.begin() + nest.depth - 1);
  nest.transposes = true;
}

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
  find_transpose(nest);
  return nest;
}

template <class T>
void copy_row(const T* from, T* to, const Loop& loop) {
  if (loop.to == 1) {
    if (loop.from == 1) {
      if constexpr (std::is_trivially_copyable_v<T>) {
        constexpr int64_t kShort = 8;  // elements; a call costs more
        if (loop.extent > kShort) {
          std::memcpy(to, from, static_cast<size_t>(loop.extent) * sizeof(T));
          return;
        }
      }
      for (int64_t i = 0; i < loop.extent; ++i) to[i] = from[i];
      return;
    }
    if (loop.from == 0) {
      std::fill_n(to, loop.extent, T(*from));
      return;
    }
    for (int64_t i = 0; i < loop.extent; ++i) to[i] = from[i * loop.from];
    return;
  }
  for (int64_t i = 0; i < loop.extent; ++i) to[i * loop.to] = from[i * loop.from];
}

// The lines that a tile reads stay in the L1 cache until all their elements are written.
template <class T>
void copy_transposed(const T* from, T* to, const Loop& rows, const Loop& row) {
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows.extent; i += kTile) {
    const int64_t height = std::min(kTile, rows.extent - i);
    for (int64_t j = 0; j < row.extent; j += kTile) {
      const Loop part{std::min(kTile, row.extent - j), row.from, row.to};
      for (int64_t k = i; k < i + height; ++k) {
        copy_row(from + k * rows.from + j * row.from, to + k * rows.to + j * row.to, part);
      }
    }
  }
}

template <class T>
void copy_loops(const T* from, T* to, const LoopNest& nest) {
  if (nest.depth == 0) {
    *to = *from;
    return;
  }
  const Loop& row = nest.loops[nest.depth - 1];
  if (nest.depth == 1) return copy_row(from, to, row);
  const Loop& rows = nest.loops[nest.depth - 2];
  std::array<int64_t, kMaxRank> index{};
  while (true) {
    if (nest.transposes) {
      copy_transposed(from, to, rows, row);
    } else {
      for (int64_t i = 0; i < rows.extent; ++i) {
        copy_row(from + i * rows.from, to + i * rows.to, row);
      }
    }
    int level = nest.depth - 3;
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

// Splits the outermost loop that has enough iterations.
template <class T>
void copy_parallel(const T* from, T* to, const LoopNest& nest, int64_t count, ThreadPool* pool) {
  constexpr int64_t kPart = int64_t{1} << 16;  // bytes
  constexpr int64_t kEnough = 8;               // iterations
  const int64_t parts = count * static_cast<int64_t>(sizeof(T)) / kPart;
  if (pool == nullptr || parts < 2) return copy_loops(from, to, nest);
  int split = 0;
  for (int i = 1; i < nest.depth && nest.loops[split].extent < kEnough; ++i) {
    if (nest.loops[i].extent > nest.loops[split].extent) split = i;
  }
  const Loop whole = nest.loops[split];
  const int64_t grain = std::max<int64_t>(1, (whole.extent + parts - 1) / parts);
  parallel_for(pool, whole.extent, grain, [&](int64_t begin, int64_t end) {
    LoopNest part = nest;
    part.loops[split].extent = end - begin;
    copy_loops(from + begin * whole.from, to + begin * whole.to, part);
  });
}

// One element of any type and alignment: byte arrays may alias any type.
template <size_t kBytes>
struct Bytes {
  std::byte bytes[kBytes];
};

template <class T>
void copy_as(const TensorView& from, const TensorView& to, ThreadPool* pool) {
  copy_parallel(from.as<const T>(), to.as<T>(), make_loops(from, to), from.count(), pool);
}

}  // namespace

void copy_elements(const TensorView& from, const TensorView& to) {
  copy_elements(from, to, nullptr);
}

void copy_elements(const TensorView& from, const TensorView& to, ThreadPool* pool) {
  if (from.type != to.type || !std::ranges::equal(from.extents(), to.extents())) {
    fail(ErrorKind::internal, "cannot copy {} to {}: expected equal types and shapes",
         to_string(from.type, from.extents()), to_string(to.type, to.extents()));
  }
  const int64_t count = from.count();
  if (count == 0) return;
  if (from.type == ElementType::string) return copy_as<std::string>(from, to, nullptr);
  const int bits = info(from.type).bits;
  if (bits < 8) {
    check(from.is_dense() && to.is_dense(), ErrorKind::internal,
          "cannot copy {}: elements below 8 bits must be dense",
          to_string(from.type, from.extents()));
    std::memcpy(to.data, from.data, static_cast<size_t>(bytes_for(from.type, count)));
    return;
  }
  switch (bits) {
    case 8:
      return copy_as<Bytes<1>>(from, to, pool);
    case 16:
      return copy_as<Bytes<2>>(from, to, pool);
    case 32:
      return copy_as<Bytes<4>>(from, to, pool);
    case 64:
      return copy_as<Bytes<8>>(from, to, pool);
    default:
      return copy_as<Bytes<16>>(from, to, pool);
  }
}

}  // namespace lathe
