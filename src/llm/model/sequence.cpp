// SPDX-License-Identifier: MIT
#include "llm/model/sequence.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/thread_scratch.h"
#include "llm/model/cache_slots.h"
#include "ops/support/views.h"

namespace lathe::llm {

Sequence::Sequence(std::shared_ptr<const CacheLayout> layout) : layout_(std::move(layout)) {
  states_.caches.resize(layout_->groups().size());
  if (layout_->unpaged()) states_.tensors.resize(layout_->states().size());
}

Sequence::Sequence(std::shared_ptr<const CacheLayout> layout, SequenceStates states,
                   std::vector<SequenceStates> checkpoints)
    : layout_(std::move(layout)),
      states_(std::move(states)),
      checkpoints_(std::move(checkpoints)) {}

Sequence::Sequence(const Sequence& other)
    : layout_(other.layout_), states_(other.states_), checkpoints_(other.checkpoints_) {}

Sequence& Sequence::operator=(Sequence other) noexcept {
  std::swap(layout_, other.layout_);
  std::swap(states_, other.states_);
  std::swap(checkpoints_, other.checkpoints_);
  std::swap(next_, other.next_);
  return *this;
}

void Sequence::become(const Sequence& other) {
  states_ = other.states_;
  checkpoints_ = other.checkpoints_;
  next_ = {};
}

void Sequence::release() {
  for (HeldPages& cache : states_.caches) {
    cache.pages.clear();
    cache.first = cache.base = 0;
    cache.end = -1;
  }
  states_.fixed = {};
  std::ranges::fill(states_.tensors, Tensor());
  states_.positions = {};
  states_.tokens.clear();
  states_.embedded.clear();
  states_.runs.clear();
  states_.length = states_.reach = 0;
  checkpoints_.clear();
  next_ = {};
}

void Sequence::checkpoint() {
  if (length() == 0 || layout_->can_truncate()) return;
  if (!checkpoints_.empty() && checkpoints_.back().length == length()) return;
  if (checkpoints_.size() == kCheckpoints) checkpoints_.erase(checkpoints_.begin() + 1);
  checkpoints_.push_back(states_);
}

// Start of the run that contains `length`; `length` itself where tokens may be split.
int64_t Sequence::run_begin(const SequenceStates& states, int64_t length) const {
  const auto run = std::ranges::upper_bound(states.runs, length);
  return run == states.runs.begin() ? length : *std::prev(run);
}

// The largest length up to `length` to which these states can be cut; -1: none.
int64_t Sequence::cut_point(const SequenceStates& states, int64_t length) const {
  if (length >= states.length) return states.length;
  if (layout_->unpaged()) {
    for (size_t i = 0; i < states.tensors.size(); ++i) {
      const int axis = layout_->states()[i].axis;
      if (layout_->states()[i].cross) continue;
      if (axis < 0 || states.tensors[i].dims()[static_cast<size_t>(axis)] != states.length)
        return -1;
    }
    return run_begin(states, length);
  }
  if (layout_->fixed_states() > 0) return -1;
  for (size_t group = 0; group < states.caches.size(); ++group) {
    // The next token attends to itself and the window - 1 tokens before it.
    const int64_t window = layout_->groups()[group].window;
    const int64_t first = states.caches[group].first;
    if (first > 0 && first > length - (window - 1)) return -1;
  }
  return length;
}

int64_t Sequence::reachable(int64_t length) const {
  check(length >= 0 && length <= this->length(), ErrorKind::invalid_argument,
        "a sequence of {} tokens cannot be cut to {}", this->length(), length);
  int64_t best = std::max<int64_t>(cut_point(states_, length), 0);
  for (const SequenceStates& states : checkpoints_) {
    best = std::max(best, cut_point(states, length));
  }
  return best;
}

int64_t Sequence::rewind(int64_t length) {
  length = reachable(length);
  if (length == this->length()) return length;
  if (length == 0) {
    Sequence empty(layout_);
    for (size_t i = 0; i < states_.tensors.size(); ++i) {
      if (layout_->states()[i].cross) empty.states_.tensors[i] = std::move(states_.tensors[i]);
    }
    for (size_t group = 0; group < states_.caches.size(); ++group) {
      if (!is_cross(group)) continue;
      empty.states_.caches[group] = std::move(states_.caches[group]);
    }
    *this = std::move(empty);
    return 0;
  }
  if (cut_point(states_, length) != length) {
    states_ = *std::ranges::find_if(checkpoints_, [&](const SequenceStates& states) {
      return cut_point(states, length) == length;
    });
  }
  std::erase_if(checkpoints_, [&](const auto& states) { return states.length > length; });
  if (length < this->length()) cut(length);
  return length;
}

void Sequence::cut(int64_t length) {
  for (size_t i = 0; layout_->unpaged() && i < states_.tensors.size(); ++i) {
    if (layout_->states()[i].cross) continue;
    const Tensor& all = states_.tensors[i];
    Dims dims = all.dims();
    dims[static_cast<size_t>(layout_->states()[i].axis)] = length;
    states_.tensors[i] = Tensor(all.type(), dims, all.strides(), all.data(), all.owner());
  }
  std::erase_if(states_.runs, [&](int64_t run) { return run >= length; });
  // An imported sequence may lack the first tokens; then drop the others.
  const bool known = std::ssize(states_.tokens) == states_.length;
  states_.tokens.resize(known ? static_cast<size_t>(length) : 0);
  states_.embedded = cut_embedded(states_.embedded, 0, known ? length : 0);
  states_.length = length;
  states_.positions.truncate(length);
  rollback();
}

void Sequence::truncate(int64_t length) {
  const int64_t reached = reachable(length);
  const int64_t expected = length == this->length() ? length : run_begin(states_, length);
  check(reached == expected, ErrorKind::invalid_argument,
        "a sequence of {} tokens cannot rewind to {}, only to {}: a state or a window has dropped "
        "earlier tokens; keep a copy or a checkpoint",
        this->length(), length, reached);
  rewind(length);
}

void Sequence::set_cross(std::span<const Tensor> tensors) {
  size_t at = 0;
  for (size_t i = 0; i < layout_->states().size(); ++i) {
    const SequenceState& known = layout_->states()[i];
    if (!known.cross) continue;
    const Tensor& tensor = tensors[at++];
    bool fits = length() == 0 && tensor.type() == known.element &&
                tensor.rank() == std::ssize(known.extents);
    for (size_t axis = 0; fits && axis < known.extents.size(); ++axis) {
      fits = known.extents[axis] == 0 || known.extents[axis] == tensor.dims()[axis];
    }
    check(fits, ErrorKind::invalid_argument,
          "state '{}' of a sequence of {} tokens cannot become {}, expected {} before the first "
          "token",
          escape(known.name), length(), to_string(tensor.type(), tensor.dims()),
          to_string(known.element, known.extents));
    if (layout_->unpaged()) states_.tensors[i] = tensor;
  }
  if (!layout_->unpaged()) store_cross(*layout_, tensors, states_);
}

void Sequence::remember(std::span<const Token> tokens, std::span<const EmbeddedTokens> embedded) {
  const auto begin = std::ssize(states_.tokens);
  states_.tokens.insert(states_.tokens.end(), tokens.begin(), tokens.end());
  for (const EmbeddedTokens& own : embedded) {
    states_.embedded.push_back({begin + own.begin, own.embeddings});
  }
}

void Sequence::place(int64_t tokens, std::span<const int64_t> positions) {
  if (!positions.empty()) states_.positions.add(length() - tokens, tokens, positions);
}

PagePool::Ref& Sequence::page_to_write(size_t group, int64_t position) {
  HeldPages& cache = states_.caches[group];
  const int64_t number = position / layout_->page_slots();
  if (cache.pages.empty()) cache.base = number;
  const auto index = static_cast<size_t>(number - cache.base);
  if (cache.pages.size() <= index) cache.pages.resize(index + 1);
  PagePool::Ref& page = cache.pages[index];
  if (!page) page = layout_->groups()[group].pool->take();
  return page;
}

int32_t Sequence::page(size_t group, int64_t position) const {
  const HeldPages& cache = states_.caches[group];
  const int64_t index = position / layout_->page_slots() - cache.base;
  if (index < 0 || index >= static_cast<int64_t>(cache.pages.size())) return -1;
  return cache.pages[static_cast<size_t>(index)].id();
}

bool Sequence::writes_shared_page() const {
  const int64_t number = length() / layout_->page_slots();
  return std::ranges::any_of(states_.caches, [&](const HeldPages& cache) {
    const int64_t index = number - cache.base;
    return index >= 0 && index < std::ssize(cache.pages) &&
           cache.pages[static_cast<size_t>(index)] &&
           cache.pages[static_cast<size_t>(index)].shared();
  });
}

int64_t Sequence::positions_to_allocate(int64_t tokens) const {
  if (layout_->unpaged()) return tokens;
  const auto fresh = [](const PagePool::Ref& page) { return !page || page.shared(); };
  const int64_t page_slots = layout_->page_slots();
  int64_t most = 0;
  for (size_t group = 0; group < states_.caches.size(); ++group) {
    if (is_cross(group)) continue;
    const HeldPages& cache = states_.caches[group];
    int64_t taken = 0;
    for (int64_t at = length(); at < length() + tokens; at += page_slots - at % page_slots) {
      const int64_t index = at / page_slots - cache.base;
      const bool held = index >= 0 && index < std::ssize(cache.pages) &&
                        !fresh(cache.pages[static_cast<size_t>(index)]);
      taken += held ? 0 : page_slots;
    }
    most = std::max(most, taken);
  }
  const bool fixed = layout_->fixed_states() > 0 && fresh(next_.page);
  return most == 0 && fixed ? tokens : most;
}

// Reuses the slot that the last step replaced, unless a fork or a checkpoint holds it.
int32_t Sequence::next_fixed_slot() {
  if (!next_.page || next_.page.shared()) next_.page = layout_->fixed_pool().take();
  next_.written = true;
  return next_.page.id();
}

void Sequence::commit(int64_t count) {
  states_.length += count;
  states_.reach = length();
  if (std::exchange(next_.written, false)) std::swap(states_.fixed, next_.page);
  drop_outside_windows();
}

void Sequence::commit(int64_t count, std::vector<Tensor> tensors, bool together) {
  if (together) states_.runs.push_back(length());
  states_.length += count;
  states_.reach = length();
  states_.tensors = std::move(tensors);
}

void Sequence::rollback() {
  const int64_t slots = layout_->page_slots();
  for (size_t group = 0; group < states_.caches.size(); ++group) {
    if (is_cross(group)) continue;
    HeldPages& cache = states_.caches[group];
    const int64_t needed = std::max<int64_t>((length() + slots - 1) / slots - cache.base, 0);
    if (static_cast<int64_t>(cache.pages.size()) > needed) {
      cache.pages.resize(static_cast<size_t>(needed));
    }
  }
  next_.written = false;
}

void Sequence::drop_outside_windows() {
  for (size_t group = 0; group < states_.caches.size(); ++group) {
    const int64_t window = layout_->groups()[group].window;
    HeldPages& cache = states_.caches[group];
    const int64_t first = (length() - (window - 1)) / layout_->page_slots();
    if (window == 0 || first <= cache.base) continue;
    const auto gone = std::min<int64_t>(first - cache.base, std::ssize(cache.pages));
    cache.pages.erase(cache.pages.begin(), cache.pages.begin() + gone);
    cache.base += gone;
    cache.first = std::max(cache.first, cache.base * layout_->page_slots());
  }
}

size_t Sequence::pages() const {
  size_t count = 0;
  for (size_t group = 0; group < states_.caches.size(); ++group) {
    if (is_cross(group)) continue;
    count += static_cast<size_t>(std::ranges::count_if(
        states_.caches[group].pages, [](const auto& page) { return bool(page); }));
  }
  return count;
}

int64_t Sequence::committed_bytes() const {
  using Block = std::pair<const void*, int64_t>;
  const auto blocks_of = [](const SequenceStates& states) {
    size_t count = 1 + states.tensors.size();
    for (const HeldPages& cache : states.caches) count += cache.pages.size();
    return count;
  };
  size_t most = blocks_of(states_) + 1;
  for (const SequenceStates& states : checkpoints_) most += blocks_of(states);
  const ScratchArray<Block> blocks(static_cast<int64_t>(most));
  Block* end = blocks.begin();
  const auto add = [&](const void* memory, int64_t size) { *end++ = {memory, size}; };
  const auto add_all = [&](const SequenceStates& states) {
    for (size_t group = 0; group < states.caches.size(); ++group) {
      for (const auto& page : states.caches[group].pages) {
        if (page) add(page.page(), layout_->groups()[group].page_bytes);
      }
    }
    if (states.fixed) add(states.fixed.page(), layout_->fixed_pool().page_bytes());
    for (const Tensor& tensor : states.tensors) add(tensor.data(), tensor.byte_size());
  };
  add_all(states_);
  for (const SequenceStates& states : checkpoints_) add_all(states);
  if (next_.page) add(next_.page.page(), layout_->fixed_pool().page_bytes());
  // Counts each block once.
  std::sort(blocks.begin(), end);
  int64_t bytes = 0;
  const void* last = nullptr;
  for (const auto& [memory, size] : std::span(blocks.begin(), end)) {
    if (memory != last) bytes += size;
    last = memory;
  }
  return bytes;
}

}  // namespace lathe::llm
