// SPDX-License-Identifier: MIT
// Runs programs with paged KV caches [blocks, block length, heads, size] and a block table: tokens
// of all sequences in one run. Sequences keep contiguous caches; each step copies them into blocks
// and back.
#pragma once

#include "llm/model/step_runner.h"

namespace lathe::llm {

class BlockTableRunner final : public StepRunner {
 public:
  BlockTableRunner(const Program& program, const DecoderInterface& names,
                   const RunnerOptions& options);

  bool packed() const override { return true; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  void run(std::span<const StepRequest> requests, const CancelToken* cancel,
           StepLogits& joined) const override;

 private:
  // Sequences of one run, each in its own blocks.
  struct Batch {
    std::span<const StepRequest> requests;
    std::vector<int64_t> first_block{};  // of each request
    int64_t blocks = 0;
    int64_t rows = 0;
    int64_t widest = 0;  // most blocks of a sequence
  };
  Batch next_batch(std::span<const StepRequest> requests) const;
  Box make_input(const Value& parameter, const Batch& batch) const;
  Tensor make_cache(size_t state, const Batch& batch) const;
  void run_batch(const Batch& batch, const CancelToken* cancel, std::vector<Tensor>& logits,
                 std::vector<std::vector<Tensor>>& presents) const;
  void take_logits(const Batch& batch, const Tensor& given, std::vector<Tensor>& logits) const;

  std::string not_packed_reason_;
  std::vector<size_t> presents_;  // of each state, among the results
  int64_t block_length_ = 0;
  int64_t most_blocks_ = 0;  // 0: any number
};

}  // namespace lathe::llm
