// SPDX-License-Identifier: MIT
// State of a sequence between steps. A copy is a fork: it shares all pages, and a write copies a
// shared page first.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "llm/model/cache_layout.h"
#include "llm/model/token_inputs.h"

namespace lathe::llm {

// Pages of a group of KV caches.
struct HeldPages {
  int64_t first = 0;  // position of the first slot held
  int64_t base = 0;   // position / page_slots of pages.front()
  int64_t end = -1;   // encoder results: the number of positions; -1: not set
  std::vector<PagePool::Ref> pages{};
};

// All states after `length` tokens.
struct SequenceStates {
  int64_t length = 0;
  std::vector<HeldPages> caches{};  // per group
  PagePool::Ref fixed{};            // slot of the states of fixed shape; null: zeros
  // Explicit position ids.
  Positions positions{};
  // Set only for programs with a LongRoPE switch, which may run all tokens again: ids, embeddings,
  // and the length at the last step, which selected the cos/sin caches.
  std::vector<int64_t> tokens{};
  std::vector<EmbeddedTokens> embedded{};
  int64_t reach = 0;
  // In unpaged layouts, all states, never written again. `runs`: token count at the start of each
  // run.
  std::vector<Tensor> tensors{};
  std::vector<int64_t> runs{};
};

class Sequence {
 public:
  explicit Sequence(std::shared_ptr<const CacheLayout> layout);
  // `states` of another sequence of the same layout; `checkpoints` by rising length.
  Sequence(std::shared_ptr<const CacheLayout> layout, SequenceStates states,
           std::vector<SequenceStates> checkpoints);
  Sequence(const Sequence& other);
  Sequence(Sequence&&) noexcept = default;
  Sequence& operator=(Sequence other) noexcept;
  ~Sequence() = default;
  // Becomes a fork of another sequence of the same layout, reusing the memory of its lists.
  void become(const Sequence& other);
  // Releases all states, but keeps the memory of its lists.
  void release();

  int64_t length() const { return states_.length; }  // tokens committed
  // Implicit position id of the next token: length(), unless explicit ids came before.
  int64_t next_position() const { return states_.positions.next(length()); }
  const CacheLayout& layout() const { return *layout_; }
  const std::shared_ptr<const CacheLayout>& shared_layout() const { return layout_; }
  const SequenceStates& states() const { return states_; }
  const std::vector<SequenceStates>& checkpoints() const { return checkpoints_; }

  // Saves the states for rewind() where they cannot be truncated. Keeps at most kCheckpoints: the
  // first and the latest.
  static constexpr size_t kCheckpoints = 16;
  void checkpoint();
  // The largest length up to `length` that rewind() can restore. It is less inside a run of an
  // unpaged layout. It is a checkpoint's where a state of fixed shape or a window would have to
  // rewind.
  int64_t reachable(int64_t length) const;
  // Drops tokens from reachable(length) on and returns that length.
  int64_t rewind(int64_t length);
  // Equivalent to rewind(), but InvalidArgument if a state or a window would rewind further.
  void truncate(int64_t length);

  // Sets the encoder results, one for each cross state in order. InvalidArgument for another shape,
  // or after the first token.
  void set_cross(std::span<const Tensor> tensors);

  const std::vector<int64_t>& tokens() const { return states_.tokens; }
  int64_t reach() const { return states_.reach; }
  // Stores ids and embeddings of the last tokens committed, in case they run again.
  void remember(std::span<const Token> tokens, std::span<const EmbeddedTokens> embedded);
  // Stores their explicit position ids, [tokens] or [3, tokens].
  void place(int64_t tokens, std::span<const int64_t> positions);

  // For steps: the page with `position`, allocated if there is none. It may be shared.
  PagePool::Ref& page_to_write(size_t group, int64_t position);
  // -1 if evicted by a window.
  int32_t page(size_t group, int64_t position) const;
  // -1 before set_cross().
  int64_t cross_length(size_t group) const { return states_.caches[group].end; }
  // Slot of the states of fixed shape; -1 before the first write.
  int32_t fixed_slot() const { return states_.fixed.id(); }
  int32_t next_fixed_slot();  // for the current step's results
  const Tensor& tensor(size_t state) const { return states_.tensors[state]; }
  // Positions that `tokens` more tokens allocate: in pages that are missing or shared.
  int64_t positions_to_allocate(int64_t tokens) const;
  // Whether the next token changes a page that another sequence shares.
  bool writes_shared_page() const;
  // Commits or discards the step's tokens and written states.
  void commit(int64_t count);
  // `together`: a rewind never splits these tokens.
  void commit(int64_t count, std::vector<Tensor> tensors, bool together = true);
  void rollback();

  size_t pages() const;  // of KV caches, shared ones too
  // Bytes of this sequence, with checkpoints and shared memory.
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
  bool is_cross(size_t group) const { return layout_->groups()[group].cross >= 0; }

  std::shared_ptr<const CacheLayout> layout_;  // must outlive the pages below
  SequenceStates states_;
  std::vector<SequenceStates> checkpoints_;  // by rising length
  Next next_;                                // of the states of fixed shape
};

}  // namespace lathe::llm
