// SPDX-License-Identifier: MIT
#include "llm/model/cache_layout.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/checksum.h"
#include "ops/support/views.h"

namespace lathe::llm {

int64_t state_bytes(const SequenceState& state) {
  return element_count(state.extents) * info(state.element).bits / 8;
}

CacheLayout::CacheLayout(std::vector<SequenceState> states, int64_t page_slots, bool unpaged)
    : states_(std::move(states)), page_slots_(page_slots), unpaged_(unpaged) {
  check(page_slots > 0, ErrorKind::invalid_argument, "pages have {} slots, expected at least 1",
        page_slots);
  if (unpaged_) return;
  for (const SequenceState& state : states_) {
    Place place;
    place.state = &state;
    place.index = static_cast<size_t>(&state - states_.data());
    if (state.cross) {
      places_[state.name] = place;
      continue;
    }
    if (!state.grows) {
      place.fixed = fixed_.size();
      fixed_.emplace_back(&state, &pool_of(state_bytes(state)));
    } else {
      const auto group = std::ranges::find(groups_, state.window, &Group::window);
      place.group = static_cast<size_t>(group - groups_.begin());
      if (group == groups_.end()) groups_.push_back({state.window});
      Group& own = groups_[place.group];
      place.offset = own.page_bytes;
      own.page_bytes += (state_bytes(state) * page_slots_ + 63) / 64 * 64;
    }
    places_[state.name] = place;
  }
  for (Group& group : groups_) group.pool = &pool_of(group.page_bytes);
}

bool CacheLayout::holds_tensors() const {
  return unpaged_ || std::ranges::any_of(states_, &SequenceState::cross);
}

PagePool& CacheLayout::pool_of(int64_t page_bytes) {
  for (const auto& pool : pools_) {
    if (pool->page_bytes() == (page_bytes + 63) / 64 * 64) return *pool;
  }
  return *pools_.emplace_back(std::make_unique<PagePool>(page_bytes));
}

const CacheLayout::Place& CacheLayout::place(std::string_view state) const {
  const auto at = places_.find(state);
  if (at == places_.end()) {
    fail(ErrorKind::internal, "sequences have no state '{}'", escape(state));
  }
  return at->second;
}

TensorView CacheLayout::slots_in_page(const Place& place, const std::byte* page, int64_t begin,
                                      int64_t count) const {
  const Dims& extents = place.state->extents;
  const std::array<int64_t, 4> dims = {1, extents[0], page_slots_, extents[1]};
  auto* data = const_cast<std::byte*>(page + place.offset);  // views are never const
  return narrow(dense_view(place.state->element, dims, data), 2, begin, count);
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
