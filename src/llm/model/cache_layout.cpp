// SPDX-License-Identifier: MIT
#include "llm/model/cache_layout.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/checksum.h"
#include "ops/support/views.h"

namespace lathe::llm {

Dims cache_extents(const SequenceState& state) {
  if (!state.cross) return state.extents;
  check(state.extents.size() == 4 && state.extents[1] > 0 && state.extents[3] > 0,
        ErrorKind::unsupported, "state '{}' is [{}], expected [1, heads, positions, size]",
        escape(state.name), fmt::join(state.extents, ", "));
  return {state.extents[1], state.extents[3]};
}

int64_t state_bytes(const SequenceState& state) {
  return element_count(cache_extents(state)) * info(state.element).bits / 8;
}

CacheLayout::CacheLayout(std::vector<SequenceState> states, int64_t page_slots, bool unpaged,
                         const Device& device)
    : states_(std::move(states)), page_slots_(page_slots), unpaged_(unpaged) {
  check(page_slots > 0, ErrorKind::invalid_argument, "pages have {} slots, expected at least 1",
        page_slots);
  if (unpaged_) return;
  std::vector<std::vector<int64_t>> page_bytes;  // of each group's caches
  std::vector<int64_t> slot_bytes;
  for (const SequenceState& state : states_) {
    Place place;
    place.state = &state;
    place.index = static_cast<size_t>(&state - states_.data());
    if (!state.grows && !state.cross) {
      place.fixed = fixed_.size();
      fixed_.push_back(&state);
      slot_bytes.push_back(state_bytes(state));
    } else {
      const int cross = state.cross ? state.cross_group : -1;
      const auto group = std::ranges::find_if(groups_, [&](const Group& other) {
        return other.window == state.window && other.cross == cross;
      });
      place.group = static_cast<size_t>(group - groups_.begin());
      if (group == groups_.end()) groups_.push_back({state.window, cross});
      page_bytes.resize(groups_.size());
      std::vector<int64_t>& own = page_bytes[place.group];
      place.cache = own.size();
      own.push_back(state_bytes(state) * page_slots_);
    }
    places_[state.name] = place;
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].pool =
        pools_.emplace_back(std::make_unique<PagePool>(device, std::move(page_bytes[i]))).get();
    groups_[i].page_bytes = groups_[i].pool->page_bytes();
  }
  if (fixed_.empty()) return;
  fixed_pool_ =
      pools_.emplace_back(std::make_unique<PagePool>(device, std::move(slot_bytes))).get();
}

const CacheLayout::Place& CacheLayout::place(std::string_view state) const {
  const auto at = places_.find(state);
  if (at == places_.end()) {
    fail(ErrorKind::internal, "sequences have no state '{}'", escape(state));
  }
  return at->second;
}

TensorView CacheLayout::slots_in_page(const Place& place, std::byte* page, int64_t begin,
                                      int64_t count) const {
  const Dims extents = cache_extents(*place.state);
  const std::array<int64_t, 4> dims = {1, extents[0], page_slots_, extents[1]};
  return narrow(dense_view(place.state->element, dims, page), 2, begin, count);
}

TensorView CacheLayout::memory(const Place& place, int64_t pages) const {
  const SequenceState& state = *place.state;
  if (!state.grows && !state.cross) {
    Dims dims = state.extents;
    dims.insert(dims.begin(), pages);
    return dense_view(state.element, dims, fixed_pool_->base(place.fixed));
  }
  const PagePool& pool = *groups_[place.group].pool;
  const Dims extents = cache_extents(state);
  const std::array<int64_t, 4> dims = {pages, extents[0], page_slots_, extents[1]};
  return dense_view(state.element, dims, pool.base(place.cache));
}

TensorView CacheLayout::fixed_view(size_t index, std::byte* slot) const {
  return dense_view(fixed_[index]->element, fixed_[index]->extents, slot);
}

int64_t CacheLayout::bytes_per_token() const {
  int64_t bytes = 0;
  for (const SequenceState& state : states_) bytes += state.grows ? state_bytes(state) : 0;
  return bytes;
}

bool CacheLayout::can_truncate() const {
  if (unpaged_) {
    return std::ranges::all_of(
        states_, [](const SequenceState& state) { return state.axis >= 0 || state.cross; });
  }
  return fixed_.empty() &&
         std::ranges::all_of(groups_, [](const Group& group) { return group.window == 0; });
}

uint64_t CacheLayout::fingerprint() const {
  std::string text;
  for (const SequenceState& state : states_) {
    text += fmt::format("{}\n{} {} {} {} {}\n", state.name, info(state.element).name, state.grows,
                        state.window, state.axis, fmt::join(state.extents, ","));
  }
  return checksum(std::as_bytes(std::span(text)));
}

int64_t CacheLayout::live_bytes() const {
  int64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->live_pages() * pool->page_bytes();
  return bytes;
}

int64_t CacheLayout::reserved_bytes() const {
  int64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->reserved_bytes();
  return bytes;
}

}  // namespace lathe::llm
