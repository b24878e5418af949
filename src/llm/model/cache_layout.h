// SPDX-License-Identifier: MIT
// Memory layout of a decoder's states.
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

// KV caches with the same window form a group and share one list of pages; so do encoder results of
// one length. A page holds `page_slots` positions of each cache of its group; each cache is dense,
// [pages, heads, page_slots, size]. The states of fixed shape form one group of slots, each [slots,
// …]. In an unpaged layout every state is one tensor, and a sequence truncates only to the start of
// a run.
class CacheLayout {
 public:
  CacheLayout(std::vector<SequenceState> states, int64_t page_slots, bool unpaged = false,
              const Device& device = host_device());

  struct Group {
    int64_t window = 0;
    int cross = -1;          // SequenceState::cross_group; -1: the group grows with the tokens
    int64_t page_bytes = 0;  // of all caches
    PagePool* pool = nullptr;
  };
  struct Place {
    size_t group = 0;
    size_t cache = 0;  // index in the group
    size_t fixed = 0;  // index among states of fixed shape
    size_t index = 0;  // index among all states
    const SequenceState* state = nullptr;
  };

  const std::vector<SequenceState>& states() const { return states_; }
  bool unpaged() const { return unpaged_; }
  int64_t page_slots() const { return page_slots_; }
  const std::vector<Group>& groups() const { return groups_; }
  size_t fixed_states() const { return fixed_.size(); }
  const SequenceState& fixed(size_t index) const { return *fixed_[index]; }
  PagePool& fixed_pool() const { return *fixed_pool_; }  // slots of all of them
  // A slot of a state of fixed shape, over host memory.
  TensorView fixed_view(size_t index, std::byte* slot) const;
  const Place& place(std::string_view state) const;  // Internal error for an unknown name
  // Slots [begin, begin + count) of a page of a cache, over host memory: [1, heads, count, size].
  TensorView slots_in_page(const Place& place, std::byte* page, int64_t begin, int64_t count) const;
  // The first pages of a KV cache, [pages, heads, page_slots, size], or slots of a state, [slots,
  // …], in the device's memory.
  TensorView memory(const Place& place, int64_t pages) const;

  int64_t bytes_per_token() const;  // of all KV caches
  // Whether sequences can drop their last tokens: all states grow, and none has a window.
  bool can_truncate() const;
  // Hash of the states' names, types and shapes, independent of pages: equal fingerprints mean
  // compatible saved sequences.
  uint64_t fingerprint() const;
  // Bytes of all sequences.
  int64_t live_bytes() const;
  int64_t reserved_bytes() const;

 private:
  std::vector<SequenceState> states_;
  int64_t page_slots_;
  bool unpaged_;
  std::vector<std::unique_ptr<PagePool>> pools_;
  std::vector<Group> groups_;
  std::vector<const SequenceState*> fixed_;
  PagePool* fixed_pool_ = nullptr;
  std::map<std::string, Place, std::less<>> places_;
};

// [heads, size] of a KV cache or an encoder result.
Dims cache_extents(const SequenceState& state);
// Bytes of a state; of one position, if it grows or is an encoder result.
int64_t state_bytes(const SequenceState& state);

}  // namespace lathe::llm
