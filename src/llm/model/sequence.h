// SPDX-License-Identifier: MIT
// What a sequence keeps between steps. A copy is a fork: it shares all pages, and whoever writes to
// a shared page first gets its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pack_sequences.h"
#include "tensor/tensor.h"

namespace lathe::llm {

// How a packed program's states lie in memory. Caches with the same window form a group: they grow
// together, so that one list of pages serves them all. A page holds `page_rows` rows of each cache
// of its group, each [heads, page_rows, size].
class CacheLayout {
 public:
  // `whole`: the rows of a run stay together, so a sequence is cut only where a run began.
  CacheLayout(std::vector<SequenceState> states, int64_t page_rows, bool whole = false);

  struct Group {
    int64_t window = 0;
    int64_t page_bytes = 0;
  };
  struct Place {
    size_t group = 0;
    int64_t offset = 0;  // of the cache in a page
    size_t fixed = 0;    // of a state of fixed extents among those
    const SequenceState* state = nullptr;
  };

  const std::vector<SequenceState>& states() const { return states_; }
  bool whole() const { return whole_; }
  int64_t page_rows() const { return page_rows_; }
  const std::vector<Group>& groups() const { return groups_; }
  size_t fixed_states() const { return fixed_; }
  const Place& place(std::string_view state) const;  // Internal error if there is none
  int64_t bytes_per_row() const;                     // of all caches that grow

 private:
  std::vector<SequenceState> states_;
  int64_t page_rows_;
  bool whole_;
  std::vector<Group> groups_;
  size_t fixed_ = 0;
  std::map<std::string, Place, std::less<>> places_;
};

class Sequence {
 public:
  explicit Sequence(std::shared_ptr<const CacheLayout> layout);

  int64_t length() const { return length_; }  // rows committed
  const CacheLayout& layout() const { return *layout_; }

  // Forgets rows from `length` on; where the rows of a run stay together, from the beginning of the
  // run that `length` lies in. InvalidArgument beyond the length, or where a state cannot go back:
  // one of fixed extents, or a window whose rows have gone. Keep a copy to return to instead.
  void truncate(int64_t length);

  // Of the rows, where a program may have to run them again; the length at the last step, whose
  // tables the caches were made with.
  const std::vector<int64_t>& tokens() const { return tokens_; }
  int64_t reach() const { return reach_; }
  void remember(const std::vector<int64_t>& tokens);

  // For steps. The page that holds `position`, made or made our own for writing.
  std::byte* writable_page(size_t group, int64_t position);
  // Null where a window has let go of it.
  const std::byte* page(size_t group, int64_t position) const;
  int64_t first_held(size_t group) const;  // position of the first row that is held
  TensorView fixed(size_t index) const;    // no data: nothing was written yet
  const Tensor& whole(size_t index) const {
    return fixed_[index];
  }  // the same; never written again
  void commit(int64_t count, std::vector<Tensor> next);
  void rollback();  // frees what was added since the last commit

  size_t pages() const;  // that are held, shared ones too

 private:
  using Page = std::shared_ptr<Tensor>;
  void drop_outside_windows();
  void cut_whole(int64_t length);
  std::shared_ptr<const CacheLayout> layout_;
  int64_t length_ = 0;
  std::vector<std::vector<Page>> pages_;  // per group
  std::vector<Tensor> fixed_;
  std::vector<int64_t> tokens_;
  int64_t reach_ = 0;
  std::vector<int64_t> runs_;  // where each began, if their rows stay together
};

}  // namespace lathe::llm
