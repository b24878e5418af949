// SPDX-License-Identifier: MIT
// One step over packed sequences, as sequence operators read it, and its commit.
#pragma once

#include <vector>

#include "llm/model/sequence.h"
#include "ops/sequence_step.h"

namespace lathe::llm {

class PackedStep final : public SequenceStep {
 public:
  // Lists reused by consecutive steps.
  class Tables {
    friend class PackedStep;
    // Per group of KV caches: the ids of each item's pages; -1: evicted.
    struct Pages {
      std::vector<int32_t> ids{};
      int64_t stride = 0;
    };
    std::vector<StepItem> items_;
    std::vector<Sequence*> sequences_;
    std::vector<Pages> groups_;
    std::vector<std::vector<const std::byte*>> pages_;  // per state
  };
  // The tables serve one step at a time and must outlive it.
  PackedStep(const CacheLayout& layout, Tables& tables);
  // Without a commit, the sequences stay unchanged.
  ~PackedStep() override;
  PackedStep(const PackedStep&) = delete;
  PackedStep& operator=(const PackedStep&) = delete;

  // Adds a sequence's next tokens. The sequences of a step must be distinct.
  void add(Sequence& sequence, int64_t count);
  // Allocates all pages of the new tokens and copies shared ones, before the first launch.
  void prepare();
  void commit();

  std::span<const StepItem> items() const override { return items_; }
  void append(std::string_view state, size_t item, const TensorView& rows) override;
  CacheRows rows(std::string_view state, size_t item, std::vector<std::byte>& memory) override;
  CachePages pages(std::string_view state) override;
  TensorView current(std::string_view state, size_t item) override;
  TensorView next(std::string_view state, size_t item) override;

 private:
  const CacheLayout& layout_;
  Tables& tables_;
  std::vector<StepItem>& items_;
  std::vector<Sequence*>& sequences_;
  bool committed_ = false;
};

}  // namespace lathe::llm
