// SPDX-License-Identifier: MIT
// What a sequence keeps between steps. A copy is a fork: it shares all pages, and whoever writes to
// a shared page first gets its own.
#pragma once

#include <memory>
#include <vector>

#include "llm/model/cache_layout.h"
#include "llm/model/token_inputs.h"

namespace lathe::llm {

// The pages of a group of caches.
struct HeldPages {
  int64_t first = 0;  // position of the first row held
  int64_t base = 0;   // position / page_rows of pages.front()
  std::vector<PagePool::Ref> pages{};
};

// All states after `length` rows.
struct SequenceStates {
  int64_t length = 0;
  std::vector<HeldPages> caches{};     // per group
  std::vector<PagePool::Ref> fixed{};  // per state of fixed extents; null: zeros
  // Where the rows stand.
  Positions positions{};
  // Of the rows, where a program may have to run them again; the length at the last step, whose
  // tables the caches were made with.
  std::vector<int64_t> tokens{};
  std::vector<EmbeddedTokens> embedded{};
  int64_t reach = 0;
  // Each state that is a tensor, never written again: those that are written once, in layouts that
  // are whole all. And where each run began.
  std::vector<Tensor> whole{};
  std::vector<int64_t> runs{};
};

class Sequence {
 public:
  explicit Sequence(std::shared_ptr<const CacheLayout> layout);
  // `states` as another sequence of the same layout holds them, the last of `checkpoints` last.
  Sequence(std::shared_ptr<const CacheLayout> layout, SequenceStates states,
           std::vector<SequenceStates> checkpoints);
  Sequence(const Sequence& other);
  Sequence(Sequence&&) noexcept = default;
  Sequence& operator=(Sequence other) noexcept;
  ~Sequence() = default;
  // Becomes a fork of another sequence of the same layout, in the memory of its own lists.
  void become(const Sequence& other);
  // Lets go of all that it holds but the memory of its lists.
  void release();

  int64_t length() const { return states_.length; }  // rows committed
  // Where the next row stands, if it is not told: length(), unless earlier rows were told theirs.
  int64_t next_position() const { return states_.positions.next(length()); }
  const CacheLayout& layout() const { return *layout_; }
  const std::shared_ptr<const CacheLayout>& shared_layout() const { return layout_; }
  const SequenceStates& states() const { return states_; }
  const std::vector<SequenceStates>& checkpoints() const { return checkpoints_; }

  // Remembers this length as one to come back to, where states cannot simply forget rows. At most
  // kCheckpoints stay: the first, and the latest.
  static constexpr size_t kCheckpoints = 16;
  void checkpoint();
  // The largest length up to `length` that rewind() reaches: `length` itself unless it lies within
  // a run that stays together, or a state of fixed extents or a window would have to go back where
  // no checkpoint is.
  int64_t reachable(int64_t length) const;
  // Forgets rows from reachable(length) on, and gives that.
  int64_t rewind(int64_t length);
  // The same, but InvalidArgument where a state or a window would have to go back further.
  void truncate(int64_t length);

  // A state that is written once. InvalidArgument if it has other extents or rows were run.
  void set_cross(size_t state, Tensor tensor);

  const std::vector<int64_t>& tokens() const { return states_.tokens; }
  int64_t reach() const { return states_.reach; }
  // Of the last rows committed: what they may have to be run again with.
  void remember(std::span<const Token> tokens, std::span<const EmbeddedTokens> embedded);
  // Where they stand, [rows] or [3, rows].
  void place(int64_t rows, std::span<const int64_t> positions);

  // For steps. The page that holds `position`, made or made our own for writing.
  std::byte* writable_page(size_t group, int64_t position);
  // Null where a window has let go of it.
  const std::byte* page(size_t group, int64_t position) const;
  int64_t first_held(size_t group) const { return states_.caches[group].first; }
  TensorView fixed(size_t index) const;  // no data: nothing was written yet
  TensorView next_fixed(size_t index);   // for what the step under way leaves
  const Tensor& whole(size_t state) const { return states_.whole[state]; }
  // Rows for which as many more take memory: of pages that are not there yet, or that others hold
  // too.
  int64_t rows_taken(int64_t rows) const;
  // The step's rows and written states count, or are forgotten.
  void commit(int64_t count);
  // `together`: the rows are never parted again.
  void commit(int64_t count, std::vector<Tensor> whole, bool together = true);
  void rollback();

  size_t pages() const;  // of caches that are held, shared ones too
  // Memory that this sequence holds, its checkpoints and what it shares included.
  int64_t committed_bytes() const;

 private:
  struct Next {
    PagePool::Ref page{};
    bool written = false;
  };
  int64_t run_begin(const SequenceStates& states, int64_t length) const;
  int64_t cut_point(const SequenceStates& states, int64_t length) const;
  void cut(int64_t length);
  void drop_outside_windows();
  TensorView fixed_view(size_t index, std::byte* data) const;

  std::shared_ptr<const CacheLayout> layout_;  // outlives the pages below
  SequenceStates states_;
  std::vector<SequenceStates> checkpoints_;  // of rising lengths
  std::vector<Next> next_;                   // per state of fixed extents
};

}  // namespace lathe::llm
