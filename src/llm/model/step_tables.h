// SPDX-License-Identifier: MIT
// One step over packed sequences: the tables that its program reads, and its commit.
#pragma once

#include <span>
#include <vector>

#include "llm/model/sequence.h"

namespace lathe::llm {

class StepTables {
  // A page that a sequence shares and the step writes.
  struct SharedPage {
    size_t group = 0;
    int32_t id = 0;
    size_t sequence = 0;
    int64_t position = 0;
    PagePool::Ref copy{};
  };

 public:
  // i32 [sequences, columns].
  struct Pages {
    std::vector<int32_t> ids{};
    int64_t columns = 0;
  };
  // Lists reused by consecutive steps.
  class Lists {
    friend class StepTables;
    std::vector<Sequence*> sequences_;
    std::vector<int32_t> bounds_;
    std::vector<int32_t> past_;
    std::vector<int32_t> slots_;
    std::vector<Pages> pages_;                 // per group
    std::vector<std::vector<int32_t>> cross_;  // lengths, per group
    std::vector<int64_t> counts_;              // pages per group; at the end, slots
    std::vector<SharedPage> shared_;
    std::vector<PagePool::PageCopy> copies_;
  };
  // The lists serve one step at a time and must outlive it.
  StepTables(const CacheLayout& layout, Lists& lists);
  // Without a commit, the sequences stay unchanged.
  ~StepTables();
  StepTables(const StepTables&) = delete;
  StepTables& operator=(const StepTables&) = delete;

  // Adds a sequence's next tokens. The sequences of a step must be distinct. InvalidArgument if it
  // has no encoder results where the program reads them.
  void add(Sequence& sequence, int64_t count);
  // Allocates all pages and slots of the new tokens and copies shared ones, before the first
  // launch.
  void prepare();
  void commit();
  // Commits the tokens of these sequences, and discards those of the others.
  void commit(const std::vector<bool>& kept);

  std::span<const int32_t> token_bounds() const { return lists_.bounds_; }
  std::span<const int32_t> past_lengths() const { return lists_.past_; }
  std::span<const int32_t> state_slots() const { return lists_.slots_; }  // [sequences, 2]
  const Pages& pages(size_t group) const { return lists_.pages_[group]; }
  // The memory of a state, with all pages that exist after prepare().
  TensorView memory(const CacheLayout::Place& place) const;
  int64_t pages(const CacheLayout::Place& place) const;  // of that memory
  // Lengths of a group of encoder results.
  std::span<const int32_t> cross_lengths(size_t group) const { return lists_.cross_[group]; }

 private:
  void prepare_tables();
  void prepare_group(size_t group);
  void copy_shared();
  PagePool::Ref& held(const SharedPage& page) const;
  void prepare_cross(size_t group);

  const CacheLayout& layout_;
  Lists& lists_;
  bool committed_ = false;
};

}  // namespace lathe::llm
