// SPDX-License-Identifier: MIT
// How a packed program's states lie in memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/model/page_pool.h"
#include "passes/decoder/pack_sequences.h"
#include "tensor/tensor.h"

namespace lathe::llm {

// Caches with the same window form a group: they grow together, so that one list of pages serves
// them all. A page holds `page_rows` rows of each cache of its group, each [heads, page_rows,
// size]. A state of fixed extents is one page of its own, one that is written once a tensor. In a
// layout that is whole every state is one tensor instead, and the rows of a run stay together: a
// sequence is cut only where a run began.
class CacheLayout {
 public:
  CacheLayout(std::vector<SequenceState> states, int64_t page_rows, bool whole = false);

  struct Group {
    int64_t window = 0;
    int64_t page_bytes = 0;
    PagePool* pool = nullptr;
  };
  struct Place {
    size_t group = 0;
    int64_t offset = 0;  // of the cache in a page
    size_t fixed = 0;    // of a state of fixed extents among those
    size_t index = 0;    // among all states
    const SequenceState* state = nullptr;
  };

  const std::vector<SequenceState>& states() const { return states_; }
  bool whole() const { return whole_; }
  // Sequences hold tensors of these states.
  bool holds_tensors() const;
  int64_t page_rows() const { return page_rows_; }
  const std::vector<Group>& groups() const { return groups_; }
  size_t fixed_states() const { return fixed_.size(); }
  const SequenceState& fixed(size_t index) const { return *fixed_[index].first; }
  PagePool& fixed_pool(size_t index) const { return *fixed_[index].second; }
  const Place& place(std::string_view state) const;  // Internal error if there is none
  // Rows [begin, begin + count) of a cache in a page of its group, as [1, heads, count, size].
  TensorView rows_in_page(const Place& place, const std::byte* page, int64_t begin,
                          int64_t count) const;

  int64_t bytes_per_row() const;  // of all caches that grow
  // Sequences may forget their last rows: all states grow, none has a window.
  bool can_truncate() const;
  // Of the states' names, types and extents, not of how pages are cut: sequences saved under equal
  // fingerprints fit.
  uint64_t fingerprint() const;
  // Of all sequences together.
  int64_t live_bytes() const;
  int64_t reserved_bytes() const;

 private:
  PagePool& pool_of(int64_t page_bytes);

  std::vector<SequenceState> states_;
  int64_t page_rows_;
  bool whole_;
  std::vector<std::unique_ptr<PagePool>> pools_;  // one for each size of page
  std::vector<Group> groups_;
  std::vector<std::pair<const SequenceState*, PagePool*>> fixed_;
  std::map<std::string, Place, std::less<>> places_;
};

// Of a state: of one row, if it grows.
int64_t state_bytes(const SequenceState& state);

}  // namespace lathe::llm
