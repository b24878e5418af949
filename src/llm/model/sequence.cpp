// SPDX-License-Identifier: MIT
#include "llm/model/sequence.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::llm {
namespace {

int64_t row_bytes(const SequenceState& state) {
  return state.extents[0] * state.extents[1] * info(state.element).bits / 8;
}

}  // namespace

CacheLayout::CacheLayout(std::vector<SequenceState> states, int64_t page_rows, bool whole)
    : states_(std::move(states)), page_rows_(page_rows), whole_(whole) {
  for (const SequenceState& state : states_) {
    Place place;
    place.state = &state;
    if (!state.grows) {
      place.fixed = fixed_++;
    } else {
      const auto group = std::ranges::find(groups_, state.window, &Group::window);
      place.group = static_cast<size_t>(group - groups_.begin());
      if (group == groups_.end()) groups_.push_back({state.window, 0});
      Group& own = groups_[place.group];
      place.offset = own.page_bytes;
      own.page_bytes += (row_bytes(state) * page_rows_ + 63) / 64 * 64;
    }
    places_[state.name] = place;
  }
}

const CacheLayout::Place& CacheLayout::place(std::string_view state) const {
  const auto at = places_.find(state);
  check(at != places_.end(), ErrorKind::internal, "no sequence keeps a state '{}'", escape(state));
  return at->second;
}

int64_t CacheLayout::bytes_per_row() const {
  int64_t bytes = 0;
  for (const SequenceState& state : states_) bytes += state.grows ? row_bytes(state) : 0;
  return bytes;
}

Sequence::Sequence(std::shared_ptr<const CacheLayout> layout)
    : layout_(std::move(layout)),
      pages_(layout_->groups().size()),
      fixed_(layout_->fixed_states()) {}

void Sequence::truncate(int64_t length) {
  check(length >= 0 && length <= length_, ErrorKind::invalid_argument,
        "a sequence of {} rows cannot be cut to {}", length_, length);
  if (length == length_) return;
  const auto run = std::ranges::upper_bound(runs_, length);
  if (run != runs_.begin()) length = *std::prev(run);
  if (length == 0) {
    *this = Sequence(layout_);
    return;
  }
  if (layout_->whole()) {
    cut_whole(length);
    return;
  }
  check(fixed_.empty(), ErrorKind::invalid_argument,
        "a sequence of {} rows cannot go back to {}: a recurrent state forgets; keep a copy",
        length_, length);
  for (size_t group = 0; group < pages_.size(); ++group) {
    const int64_t window = layout_->groups()[group].window;
    const int64_t first = first_held(group);
    check(first == 0 || length - window >= first, ErrorKind::invalid_argument,
          "a sequence of {} rows cannot go back to {}: its window begins at {}; keep a copy",
          length_, length, first);
  }
  length_ = length;
  if (!tokens_.empty()) tokens_.resize(static_cast<size_t>(length));
  rollback();
}

void Sequence::remember(const std::vector<int64_t>& tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void Sequence::cut_whole(int64_t length) {
  const std::vector<SequenceState>& states = layout_->states();
  for (const SequenceState& state : states) {
    const Tensor& all = fixed_[layout_->place(state.name).fixed];
    const bool all_rows = state.axis >= 0 && all.dims()[static_cast<size_t>(state.axis)] == length_;
    check(all_rows, ErrorKind::invalid_argument,
          "a sequence of {} rows cannot go back to {}: the state '{}' forgets; keep a copy",
          length_, length, escape(state.name));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor& all = fixed_[i];
    Dims dims = all.dims();
    dims[static_cast<size_t>(states[i].axis)] = length;
    fixed_[i] = Tensor(all.type(), dims, all.strides(), all.data(), all.owner());
  }
  runs_.resize(static_cast<size_t>(std::ranges::lower_bound(runs_, length) - runs_.begin()));
  length_ = length;
}

std::byte* Sequence::writable_page(size_t group, int64_t position) {
  const auto index = static_cast<size_t>(position / layout_->page_rows());
  std::vector<Page>& pages = pages_[group];
  if (pages.size() <= index) pages.resize(index + 1);
  Page& page = pages[index];
  if (page == nullptr || page.use_count() > 1) {
    const int64_t bytes = layout_->groups()[group].page_bytes;
    auto own = std::make_shared<Tensor>(ElementType::u8, Dims{bytes});
    if (page != nullptr) std::memcpy(own->data(), page->data(), static_cast<size_t>(bytes));
    page = std::move(own);
  }
  return page->as<std::byte>();
}

const std::byte* Sequence::page(size_t group, int64_t position) const {
  const auto index = static_cast<size_t>(position / layout_->page_rows());
  const std::vector<Page>& pages = pages_[group];
  return index < pages.size() && pages[index] != nullptr ? pages[index]->as<std::byte>() : nullptr;
}

int64_t Sequence::first_held(size_t group) const {
  const std::vector<Page>& pages = pages_[group];
  const auto first = std::ranges::find_if(pages, [](const Page& page) { return page != nullptr; });
  return (first - pages.begin()) * layout_->page_rows();
}

TensorView Sequence::fixed(size_t index) const {
  return fixed_[index].data() == nullptr ? TensorView{} : fixed_[index].view();
}

void Sequence::commit(int64_t count, std::vector<Tensor> next) {
  if (layout_->whole()) runs_.push_back(length_);
  length_ += count;
  reach_ = length_;
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i].data() != nullptr) fixed_[i] = std::move(next[i]);
  }
  drop_outside_windows();
}

void Sequence::rollback() {
  const int64_t rows = layout_->page_rows();
  const auto needed = static_cast<size_t>((length_ + rows - 1) / rows);
  for (std::vector<Page>& pages : pages_) {
    if (pages.size() > needed) pages.resize(needed);
  }
}

// The next row sees itself and window - 1 rows before it.
void Sequence::drop_outside_windows() {
  for (size_t group = 0; group < pages_.size(); ++group) {
    const int64_t window = layout_->groups()[group].window;
    if (window == 0) continue;
    const int64_t first = std::max<int64_t>(0, length_ - (window - 1)) / layout_->page_rows();
    for (int64_t i = 0; i < std::min<int64_t>(first, static_cast<int64_t>(pages_[group].size()));
         ++i) {
      pages_[group][static_cast<size_t>(i)].reset();
    }
  }
}

size_t Sequence::pages() const {
  size_t count = 0;
  for (const std::vector<Page>& pages : pages_) {
    count += static_cast<size_t>(
        std::ranges::count_if(pages, [](const Page& p) { return p != nullptr; }));
  }
  return count;
}

}  // namespace lathe::llm
