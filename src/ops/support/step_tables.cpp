// SPDX-License-Identifier: MIT
#include "ops/support/step_tables.h"

#include <algorithm>

#include "ops/support/views.h"

namespace lathe {

void read_items(const OpOrigin& origin, const TensorView& bounds, const TensorView& past,
                int64_t tokens, std::vector<StepItem>& items) {
  items.clear();
  const auto bound = [&](int64_t i) {
    return int64_t{bounds.as<const int32_t>()[i * bounds.strides[0]]};
  };
  const int64_t sequences = bounds.dims[0] - 1;
  origin.check(sequences >= 0 && bound(0) == 0 && bound(sequences) == tokens,
               "{} token bounds end at {}, expected one more than sequences, from 0 to {}",
               bounds.dims[0], sequences < 0 ? 0 : bound(sequences), tokens);
  for (int64_t i = 0; i < sequences; ++i) {
    StepItem& item = items.emplace_back();
    item.begin = bound(i);
    item.count = bound(i + 1) - item.begin;
    if (past.data != nullptr) item.past = past.as<const int32_t>()[i * past.strides[0]];
    origin.check(item.count >= 0 && item.past >= 0,
                 "sequence {} has tokens {} to {} and {} earlier ones", i, item.begin, bound(i + 1),
                 item.past);
  }
}

void PagedCache::check(const OpOrigin& origin, size_t sequence, int64_t begin, int64_t end) const {
  origin.check(length() > 0 && end <= columns() * length(),
               "sequence {} has {} positions, but {} pages of {}", sequence, end, columns(),
               length());
  for (int64_t at = begin / length(); at * length() < end; ++at) {
    const int32_t id = page(sequence, at);
    origin.check(id >= 0 && id < cache_.dims[0],
                 "positions from {} on of sequence {} are in page {} of {}", at * length(),
                 sequence, id, cache_.dims[0]);
  }
}

template <class Use>
void PagedCache::for_each_part(size_t sequence, int64_t begin, const TensorView& rows,
                               Use use) const {
  for (int64_t done = 0; done < rows.dims[2];) {
    const int64_t at = begin + done;
    const int64_t count = std::min(length() - at % length(), rows.dims[2] - done);
    TensorView held = cache_;
    held.dims[0] = 1;
    held.data = address(page(sequence, at / length()));
    use(narrow(held, 2, at % length(), count), narrow(rows, 2, done, count));
    done += count;
  }
}

void PagedCache::write(size_t sequence, int64_t begin, const TensorView& rows) const {
  for_each_part(sequence, begin, rows,
                [](const TensorView& held, const TensorView& own) { copy_elements(own, held); });
}

void PagedCache::read(size_t sequence, int64_t begin, const TensorView& rows) const {
  for_each_part(sequence, begin, rows,
                [](const TensorView& held, const TensorView& own) { copy_elements(held, own); });
}

void SlottedState::check(const OpOrigin& origin, size_t sequence) const {
  const int32_t from = slot(sequence, 0), to = slot(sequence, 1);
  const int64_t slots = states_.dims[0];
  origin.check(from >= -1 && from < slots && to >= 0 && to < slots && from != to,
               "sequence {} reads slot {} and writes slot {} of {}, expected two of them, or -1 to "
               "read zeros",
               sequence, from, to, slots);
}

TensorView SlottedState::at(int32_t slot) const {
  TensorView view = states_;
  view.rank = states_.rank - 1;
  std::copy_n(states_.dims.begin() + 1, view.rank, view.dims.begin());
  std::copy_n(states_.strides.begin() + 1, view.rank, view.strides.begin());
  view.data = states_.as<std::byte>() + slot * states_.strides[0] * (info(states_.type).bits / 8);
  return view;
}

TensorView SlottedState::current(size_t sequence) const {
  const int32_t from = slot(sequence, 0);
  return from < 0 ? TensorView{} : at(from);
}

TensorView SlottedState::next(size_t sequence) const { return at(slot(sequence, 1)); }

void check_step_tables(Infer& c, int bounds, int past, int table, int64_t columns) {
  const int lengths = past < 0 ? bounds : past;
  c.check(c.rank(bounds) == 1 && c.rank(lengths) == 1 && c.rank(table) == 2,
          "token bounds, past lengths and page table have ranks {}, {} and {}, expected 1, 1 and 2",
          c.rank(bounds), c.rank(lengths), c.rank(table));
  if (past >= 0) {
    c.require_equal(c.dim(bounds, 0), c.dim(past, 0) + 1, "token bounds and sequences");
    c.require_equal(c.dim(table, 0), c.dim(past, 0), "sequences of the tables");
  } else {
    c.require_equal(c.dim(bounds, 0), c.dim(table, 0) + 1, "token bounds and sequences");
  }
  if (columns > 0) c.require_equal(c.dim(table, 1), columns, "columns of state slots");
}

void continue_version(const TensorView& version, const TensorView& next) {
  if (version.data != next.data) copy_elements(version, next);
}

}  // namespace lathe
