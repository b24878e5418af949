// SPDX-License-Identifier: MIT
#include "ops/support/kv_cache.h"

#include <array>

namespace lathe {
namespace {

// Entries [begin, begin + count) of axis 2 for sequence b, as a view with a batch of one.
TensorView rows_of(const TensorView& view, int64_t b, int64_t begin, int64_t count) {
  TensorView out = view;
  out.dims[0] = 1;
  out.dims[2] = count;
  out.data = view.as<std::byte>() +
             (b * view.strides[0] + begin * view.strides[2]) * (info(view.type).bits / 8);
  return out;
}

// Zeroes the entries of sequence b from `begin` on.
void clear_rows(const TensorView& view, int64_t b, int64_t begin) {
  const ScratchTensor zeros(view.type,
                            std::array{int64_t{1}, view.dims[1], int64_t{1}, view.dims[3]});
  zeros.clear();
  TensorView zero = zeros.view();
  zero.dims[2] = view.dims[2] - begin;
  zero.strides[2] = 0;
  copy_elements(zero, rows_of(view, b, begin, zero.dims[2]));
}

}  // namespace

void update_cache(const TensorView* past, const TensorView& added, const TensorView& present,
                  std::span<const int64_t> lengths) {
  const int64_t count = added.dims[2];
  const bool in_place = past != nullptr && past->data == present.data;
  for (int64_t b = 0; b < present.dims[0] && !in_place; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    if (past != nullptr) {
      copy_elements(rows_of(*past, b, 0, length), rows_of(present, b, 0, length));
    }
    clear_rows(present, b, length + count);
  }
  for (int64_t b = 0; b < present.dims[0]; ++b) {
    copy_elements(rows_of(added, b, 0, count),
                  rows_of(present, b, lengths[static_cast<size_t>(b)], count));
  }
}

int64_t SlidingCache::kept(int64_t tokens) const {
  if (tokens <= capacity) return tokens;
  const int64_t step = capacity - window + 1;
  return tokens - step * ((tokens - capacity + step - 1) / step);
}

ScratchTensor SlidingCache::slide(const TensorView& before, const TensorView& added,
                                  const TensorView& present, std::span<const int64_t> past,
                                  std::span<const int64_t> last) const {
  const int64_t count = added.dims[2];
  ScratchTensor staged(added.type,
                       std::array{added.dims[0], added.dims[1], capacity + count, added.dims[3]});
  const TensorView all = staged.view();
  // Past and present may share memory: everything is read before the first write.
  for (int64_t b = 0; b < added.dims[0]; ++b) {
    const int64_t rows = kept(past[static_cast<size_t>(b)]);
    copy_elements(rows_of(before, b, 0, rows), rows_of(all, b, 0, rows));
    copy_elements(rows_of(added, b, 0, count), rows_of(all, b, rows, count));
    clear_rows(all, b, rows + count);
  }
  for (int64_t b = 0; b < added.dims[0]; ++b) {
    const auto at = static_cast<size_t>(b);
    const int64_t tokens = last[at] + 1;
    const int64_t end = kept(past[at]) + tokens - past[at];
    const int64_t rows = kept(tokens);
    copy_elements(rows_of(all, b, end - rows, rows), rows_of(present, b, 0, rows));
    clear_rows(present, b, rows);
  }
  return staged;
}

}  // namespace lathe
