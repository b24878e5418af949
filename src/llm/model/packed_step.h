// SPDX-License-Identifier: MIT
// One step over packed sequences: what sequence operators see, and its commit.
#pragma once

#include <vector>

#include "llm/model/sequence.h"
#include "ops/sequence_step.h"

namespace lathe::llm {

class PackedStep final : public SequenceStep {
 public:
  explicit PackedStep(const CacheLayout& layout) : layout_(layout) {}
  // Unless committed, the sequences are left as they were.
  ~PackedStep() override;
  PackedStep(const PackedStep&) = delete;
  PackedStep& operator=(const PackedStep&) = delete;

  // A sequence's next rows; each sequence once.
  void add(Sequence& sequence, int64_t count);
  void commit();

  std::span<const StepItem> items() const override { return items_; }
  void append(std::string_view state, size_t item, const TensorView& rows) override;
  CacheRows rows(std::string_view state, size_t item) override;
  CachePages pages(std::string_view state) override;
  TensorView current(std::string_view state, size_t item) override;
  TensorView next(std::string_view state, size_t item) override;

 private:
  const CacheLayout& layout_;
  std::vector<StepItem> items_;
  std::vector<Sequence*> sequences_;
  // Per group of caches: the pages of each item, once they have room for the new rows.
  struct Table {
    std::vector<const std::byte*> pages;
    int64_t stride = 0;
  };
  std::vector<Table> tables_;
  bool committed_ = false;
};

}  // namespace lathe::llm
