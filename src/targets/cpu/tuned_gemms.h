// SPDX-License-Identifier: MIT
// The GEMMs of one kernel with measured blockings.
#pragma once

#include <atomic>

#include "targets/cpu/gemm.h"
#include "targets/tuning.h"

namespace lathe::cpu {

class TunedGemms {
 public:
  // Made with the kernel, in its TuningScope.
  TunedGemms() : tuning_(TuningScope::current()) {}
  ~TunedGemms();
  TunedGemms(const TunedGemms&) = delete;
  TunedGemms& operator=(const TunedGemms&) = delete;

  // run_gemms() with the choice for these sizes.
  void run(const MatmulShape& shape, const MatmulCall& call, const PackedMatrix* packed,
           ThreadPool* pool) const;

 private:
  struct Node {
    int64_t batch = 0;
    int64_t m = 0, n = 0, k = 0;
    TunedProblem* problem = nullptr;
    Node* next = nullptr;
  };
  // Lock-free, without allocations, for known sizes; null: too many of them.
  TunedProblem* find(const MatmulShape& shape, const MatmulCall& call, bool is_packed) const;

  static constexpr int kMaxShapes = 64;  // of one kernel
  std::shared_ptr<Tuning> tuning_;
  mutable std::atomic<Node*> first_{nullptr};
  mutable std::atomic<int> count_{0};
};

}  // namespace lathe::cpu
