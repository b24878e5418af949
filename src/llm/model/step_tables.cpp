// SPDX-License-Identifier: MIT
#include "llm/model/step_tables.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace lathe::llm {
namespace {

// Rounds up, so that the shapes of a program's inputs change as seldom as its sequences double.
int64_t columns_for(int64_t pages) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(pages, 4))));
}

}  // namespace

StepTables::StepTables(const CacheLayout& layout, Lists& lists) : layout_(layout), lists_(lists) {
  lists_.sequences_.clear();
  lists_.bounds_.assign(1, 0);
  lists_.past_.clear();
  lists_.slots_.clear();
  lists_.shared_.clear();
  lists_.pages_.resize(layout.groups().size());
  lists_.cross_.resize(layout.groups().size());
}

StepTables::~StepTables() {
  lists_.shared_.clear();
  if (committed_) return;
  for (Sequence* sequence : lists_.sequences_) sequence->rollback();
}

void StepTables::add(Sequence& sequence, int64_t count) {
  for (const SequenceState& state : layout_.states()) {
    if (!state.cross || sequence.cross_length(layout_.place(state.name).group) >= 0) continue;
    fail(ErrorKind::invalid_argument,
         "a sequence of {} tokens has no '{}': set the encoder's inputs before its tokens",
         sequence.length(), escape(state.name));
  }
  check(sequence.length() + count <= INT32_MAX && lists_.bounds_.back() + count <= INT32_MAX,
        ErrorKind::invalid_argument,
        "a step of {} tokens, {} of them behind {} others, is too long",
        lists_.bounds_.back() + count, count, sequence.length());
  lists_.past_.push_back(static_cast<int32_t>(sequence.length()));
  lists_.bounds_.push_back(static_cast<int32_t>(lists_.bounds_.back() + count));
  lists_.sequences_.push_back(&sequence);
}

int64_t StepTables::pages(const CacheLayout::Place& place) const {
  const bool paged = place.state->grows || place.state->cross;
  return paged ? lists_.counts_[place.group] : lists_.counts_.back();
}

TensorView StepTables::memory(const CacheLayout::Place& place) const {
  return layout_.memory(place, pages(place));
}

void StepTables::prepare() {
  prepare_tables();
  // Once, for all states of a group: other steps may add pages.
  lists_.counts_.clear();
  for (const CacheLayout::Group& group : layout_.groups()) {
    lists_.counts_.push_back(group.pool->pages());
  }
  lists_.counts_.push_back(layout_.fixed_states() == 0 ? 0 : layout_.fixed_pool().pages());
}

void StepTables::prepare_tables() {
  for (size_t group = 0; group < lists_.pages_.size(); ++group) {
    if (layout_.groups()[group].cross < 0) {
      prepare_group(group);
    } else {
      prepare_cross(group);
    }
  }
  for (size_t i = 0; i < lists_.sequences_.size() && layout_.fixed_states() > 0; ++i) {
    Sequence& sequence = *lists_.sequences_[i];
    const bool runs = lists_.bounds_[i + 1] > lists_.bounds_[i];
    lists_.slots_.push_back(sequence.fixed_slot());
    lists_.slots_.push_back(runs ? sequence.next_fixed_slot() : -1);
  }
  if (!lists_.shared_.empty()) copy_shared();
}

void StepTables::prepare_group(size_t group) {
  const int64_t length = layout_.page_slots();
  const auto end_of = [&](size_t i) {
    return int64_t{lists_.past_[i]} + lists_.bounds_[i + 1] - lists_.bounds_[i];
  };
  Pages& table = lists_.pages_[group];
  int64_t most = 0;
  for (size_t i = 0; i < lists_.sequences_.size(); ++i) most = std::max(most, end_of(i));
  table.columns = columns_for((most + length - 1) / length);
  table.ids.assign(lists_.sequences_.size() * static_cast<size_t>(table.columns), -1);
  for (size_t i = 0; i < lists_.sequences_.size(); ++i) {
    int32_t* own = table.ids.data() + static_cast<int64_t>(i) * table.columns;
    const int64_t end = end_of(i);
    Sequence& sequence = *lists_.sequences_[i];
    for (int64_t at = lists_.past_[i]; at < end; at += length - at % length) {
      const PagePool::Ref& page = sequence.page_to_write(group, at);
      if (page.shared()) lists_.shared_.push_back({group, page.id(), i, at});
    }
    for (int64_t at = 0; at < end; at += length) own[at / length] = sequence.page(group, at);
  }
}

PagePool::Ref& StepTables::held(const SharedPage& page) const {
  return lists_.sequences_[page.sequence]->page_to_write(page.group, page.position);
}

// Takes all pages before it changes a sequence. Where all that share a page write it, one of them
// keeps it.
void StepTables::copy_shared() {
  std::vector<SharedPage>& shared = lists_.shared_;
  const auto page_of = [](const SharedPage& page) { return std::pair(page.group, page.id); };
  std::ranges::sort(shared, {}, [](const SharedPage& page) {
    return std::tuple(page.group, page.id, page.sequence);
  });
  for (auto page = shared.begin(); page != shared.end();) {
    const auto end = std::find_if(page, shared.end(), [&](const SharedPage& other) {
      return page_of(other) != page_of(*page);
    });
    if (held(*page).uses() == end - page) ++page;
    for (; page != end; ++page) page->copy = layout_.groups()[page->group].pool->take();
  }
  for (size_t group = 0; group < layout_.groups().size(); ++group) {
    lists_.copies_.clear();
    for (const SharedPage& page : shared) {
      if (page.group == group && page.copy) lists_.copies_.push_back({page.copy.id(), page.id});
    }
    if (!lists_.copies_.empty()) layout_.groups()[group].pool->copy(lists_.copies_);
  }
  for (SharedPage& page : shared) {
    if (!page.copy) continue;
    Pages& table = lists_.pages_[page.group];
    const auto column = page.position / layout_.page_slots();
    table.ids[page.sequence * static_cast<size_t>(table.columns) + static_cast<size_t>(column)] =
        page.copy.id();
    held(page) = std::move(page.copy);
  }
  shared.clear();
}

void StepTables::prepare_cross(size_t group) {
  const int64_t length = layout_.page_slots();
  std::vector<int32_t>& lengths = lists_.cross_[group];
  lengths.clear();
  int64_t most = 0;
  for (const Sequence* sequence : lists_.sequences_) {
    lengths.push_back(static_cast<int32_t>(sequence->cross_length(group)));
    most = std::max(most, sequence->cross_length(group));
  }
  Pages& table = lists_.pages_[group];
  table.columns = columns_for((most + length - 1) / length);
  table.ids.assign(lists_.sequences_.size() * static_cast<size_t>(table.columns), -1);
  for (size_t i = 0; i < lists_.sequences_.size(); ++i) {
    int32_t* own = table.ids.data() + static_cast<int64_t>(i) * table.columns;
    for (int64_t at = 0; at < lengths[i]; at += length) {
      own[at / length] = lists_.sequences_[i]->page(group, at);
    }
  }
}

void StepTables::commit() {
  for (size_t i = 0; i < lists_.sequences_.size(); ++i) {
    lists_.sequences_[i]->commit(lists_.bounds_[i + 1] - lists_.bounds_[i]);
  }
  committed_ = true;
}

void StepTables::commit(const std::vector<bool>& kept) {
  for (size_t i = 0; i < lists_.sequences_.size(); ++i) {
    if (kept[i]) {
      lists_.sequences_[i]->commit(lists_.bounds_[i + 1] - lists_.bounds_[i]);
    } else {
      lists_.sequences_[i]->rollback();
    }
  }
  committed_ = true;
}

}  // namespace lathe::llm
