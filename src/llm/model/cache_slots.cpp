// SPDX-License-Identifier: MIT
#include "llm/model/cache_slots.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/support/views.h"

namespace lathe::llm {
namespace {

// Calls `use` with each page's slots and the matching part of `slots`, which begin at position
// `begin`.
template <class Use>
void for_each_part(const CacheLayout& layout, const CacheLayout::Place& place,
                   const HeldPages& cache, int64_t begin, const TensorView& slots,
                   PagePool::HostPage::Access access, Use use) {
  const int64_t page_slots = layout.page_slots();
  for (int64_t done = 0; done < slots.dims[2];) {
    const int64_t at = begin + done;
    const int64_t count = std::min(page_slots - at % page_slots, slots.dims[2] - done);
    const int64_t index = at / page_slots - cache.base;
    check(index >= 0 && index < std::ssize(cache.pages) &&
              bool(cache.pages[static_cast<size_t>(index)]),
          ErrorKind::internal, "position {} is evicted: {} pages are held from position {} on", at,
          std::ssize(cache.pages), cache.first);
    const PagePool::HostPage page(*layout.groups()[place.group].pool, place.cache,
                                  cache.pages[static_cast<size_t>(index)].id(), access);
    use(layout.slots_in_page(place, page.data(), at % page_slots, count),
        narrow(slots, 2, done, count));
    done += count;
  }
}

}  // namespace

void read_slots(const CacheLayout& layout, const CacheLayout::Place& place, const HeldPages& cache,
                int64_t begin, const TensorView& slots) {
  for_each_part(layout, place, cache, begin, slots, PagePool::HostPage::Access::read,
                [](const TensorView& page, const TensorView& own) { copy_elements(page, own); });
}

CacheWriter::CacheWriter(const CacheLayout& layout, size_t group, int64_t first, int64_t end)
    : layout_(layout) {
  cache_.first = first;
  cache_.base = first / layout.page_slots();
  const int64_t last = (end + layout.page_slots() - 1) / layout.page_slots();
  for (int64_t i = cache_.base; i < last; ++i) {
    const PagePool& pool = *layout.groups()[group].pool;
    cache_.pages.push_back(layout.groups()[group].pool->take());
    for (size_t c = 0; c < pool.caches(); ++c) {
      const PagePool::HostPage page(pool, c, cache_.pages.back().id(),
                                    PagePool::HostPage::Access::write);
      std::memset(page.data(), 0, static_cast<size_t>(pool.page_bytes(c)));
    }
  }
}

void CacheWriter::write(const CacheLayout::Place& place, const TensorView& slots) {
  write(place, cache_.first, slots);
}

void CacheWriter::write(const CacheLayout::Place& place, int64_t begin, const TensorView& slots) {
  for_each_part(layout_, place, cache_, begin, slots, PagePool::HostPage::Access::write,
                [](const TensorView& page, const TensorView& own) { copy_elements(own, page); });
}

void store_cross(const CacheLayout& layout, std::span<const Tensor> tensors,
                 SequenceStates& states) {
  for (size_t group = 0; group < layout.groups().size(); ++group) {
    if (layout.groups()[group].cross < 0) continue;
    std::optional<CacheWriter> writer;
    int64_t length = -1;
    size_t at = 0;
    for (const SequenceState& state : layout.states()) {
      if (!state.cross) continue;
      const Tensor& tensor = tensors[at++];
      const CacheLayout::Place& place = layout.place(state.name);
      if (place.group != group || tensor.data() == nullptr) continue;
      if (!writer) {
        length = tensor.dims()[2];
        writer.emplace(layout, group, 0, length);
      }
      check(tensor.dims()[2] == length, ErrorKind::invalid_argument,
            "state '{}' is {}, but others have {} positions", escape(state.name),
            to_string(tensor.type(), tensor.dims()), length);
      writer->write(place, tensor.view());
    }
    states.caches[group] = writer ? writer->take() : HeldPages{};
    states.caches[group].end = length;
  }
}

Tensor load_cross(const CacheLayout& layout, const SequenceStates& states,
                  const SequenceState& state) {
  const CacheLayout::Place& place = layout.place(state.name);
  const HeldPages& cache = states.caches[place.group];
  if (cache.end < 0) return {};
  const Dims extents = cache_extents(state);
  Tensor tensor(state.element, {1, extents[0], cache.end, extents[1]});
  read_slots(layout, place, cache, 0, tensor.view());
  return tensor;
}

}  // namespace lathe::llm
