// SPDX-License-Identifier: MIT
#include "llm/model/packed_step.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/cache_slots.h"
#include "ops/support/views.h"

namespace lathe::llm {

PackedStep::PackedStep(const CacheLayout& layout, Tables& tables)
    : layout_(layout), tables_(tables), items_(tables.items_), sequences_(tables.sequences_) {
  items_.clear();
  sequences_.clear();
  tables_.groups_.resize(layout.groups().size());
  tables_.pages_.resize(layout.states().size());
}

PackedStep::~PackedStep() {
  if (committed_) return;
  for (Sequence* sequence : sequences_) sequence->rollback();
}

void PackedStep::add(Sequence& sequence, int64_t count) {
  for (size_t i = 0; i < layout_.states().size(); ++i) {
    const SequenceState& state = layout_.states()[i];
    if (!state.cross || sequence.tensor(i).data() != nullptr) continue;
    fail(ErrorKind::invalid_argument,
         "a sequence of {} tokens has no '{}': set the encoder's inputs before its tokens",
         sequence.length(), escape(state.name));
  }
  const int64_t begin = items_.empty() ? 0 : items_.back().begin + items_.back().count;
  items_.push_back({begin, count, sequence.length()});
  sequences_.push_back(&sequence);
}

void PackedStep::prepare() {
  const int64_t rows = layout_.page_slots();
  for (size_t group = 0; group < tables_.groups_.size(); ++group) {
    Tables::Pages& table = tables_.groups_[group];
    table.stride = 0;
    for (const StepItem& item : items_) {
      table.stride = std::max(table.stride, (item.past + item.count + rows - 1) / rows);
    }
    table.ids.resize(items_.size() * static_cast<size_t>(table.stride));
    for (size_t i = 0; i < items_.size(); ++i) {
      const StepItem& item = items_[i];
      int32_t* own = table.ids.data() + static_cast<int64_t>(i) * table.stride;
      const int64_t end = item.past + item.count;
      for (int64_t at = item.past; at < end; at += rows - at % rows) {
        sequences_[i]->make_writable(group, at);
      }
      for (int64_t at = 0; at < end; at += rows) own[at / rows] = sequences_[i]->page(group, at);
    }
  }
}

void PackedStep::commit() {
  for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i]->commit(items_[i].count);
  committed_ = true;
}

void PackedStep::append(std::string_view state, size_t item, const TensorView& rows) {
  const CacheLayout::Place& place = layout_.place(state);
  const int64_t page_slots = layout_.page_slots();
  const int64_t past = items_[item].past;
  for (int64_t done = 0; done < items_[item].count;) {
    const int64_t begin = (past + done) % page_slots;
    const int64_t count = std::min(page_slots - begin, items_[item].count - done);
    const int32_t page = sequences_[item]->page(place.group, past + done);
    copy_elements(narrow(rows, 2, done, count), layout_.slots_in_page(place, page, begin, count));
    done += count;
  }
}

CacheRows PackedStep::rows(std::string_view state, size_t item, std::vector<std::byte>& memory) {
  const CacheLayout::Place& place = layout_.place(state);
  const Sequence& sequence = *sequences_[item];
  if (place.state->cross) return {sequence.tensor(place.index).view(), 0};
  const int64_t end = items_[item].past + items_[item].count;
  CacheRows held;
  held.first = sequence.first_held(place.group);
  const Dims& extents = place.state->extents;
  const std::array<int64_t, 4> dims = {1, extents[0], end - held.first, extents[1]};
  // Rounds up to pages, so that the buffer grows as seldom as the cache.
  const int64_t page_slots = layout_.page_slots();
  const int64_t room = (dims[2] + page_slots - 1) / page_slots * page_slots;
  const int64_t bytes = bytes_for(place.state->element, dims[1] * room * dims[3]);
  if (std::ssize(memory) < bytes) memory.resize(static_cast<size_t>(bytes));
  held.rows = dense_view(place.state->element, dims, memory.data());
  read_slots(layout_, place, sequence.states().caches[place.group], held.first, held.rows);
  return held;
}

CachePages PackedStep::pages(std::string_view state) {
  const CacheLayout::Place& place = layout_.place(state);
  const Tables::Pages& table = tables_.groups_[place.group];
  const PagePool& pool = *layout_.groups()[place.group].pool;
  std::vector<const std::byte*>& pages = tables_.pages_[place.index];
  pages.clear();
  for (const int32_t id : table.ids) {
    pages.push_back(id < 0 ? nullptr : pool.at(place.cache, id));
  }
  return {pages.data(), table.stride, layout_.page_slots()};
}

TensorView PackedStep::current(std::string_view state, size_t item) {
  const int32_t slot = sequences_[item]->fixed_slot();
  return slot < 0 ? TensorView{} : layout_.fixed_view(layout_.place(state).fixed, slot);
}

TensorView PackedStep::next(std::string_view state, size_t item) {
  return layout_.fixed_view(layout_.place(state).fixed, sequences_[item]->next_fixed_slot());
}

}  // namespace lathe::llm
