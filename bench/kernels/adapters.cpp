// SPDX-License-Identifier: MIT
// Registry of benchmark adapters by problem kind.
#include "bench/kernels/adapter.h"

#include <vector>

#include "base/error.h"
#include "bench/kernels/attention.h"
#include "bench/kernels/conv.h"
#include "bench/kernels/matmul.h"
#include "bench/kernels/recurrent.h"
#include "bench/kernels/weight_only.h"

namespace lathe::bench {

std::span<const Adapter> adapters() {
  static const std::vector<Adapter> all{
      {"conv", prepare_conv},
      {"matmul", prepare_matmul},
      {"matmul_n_bits", ready_weight_only},
      {"attention", prepare_attention},
      {"lstm", prepare_recurrent},
      {"gru", prepare_recurrent},
  };
  return all;
}

std::unique_ptr<Ready> make_ready(const Problem& problem, ThreadPool& pool) {
  for (const Adapter& adapter : adapters()) {
    if (adapter.kind == problem.kind) return adapter.prepare(problem, pool);
  }
  fail(ErrorKind::unsupported, "no adapter for problems of kind {}", problem.kind);
}

}  // namespace lathe::bench
