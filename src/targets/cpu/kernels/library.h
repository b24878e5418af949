// SPDX-License-Identifier: MIT
// What the shared library of the kernels offers: one table, known by its version. Programs of the
// same build may use its types; nothing else is exported.
#pragma once

#include "targets/cpu/kernels/attention.h"
#include "targets/cpu/kernels/convolution.h"
#include "targets/cpu/kernels/matmul.h"
#include "targets/cpu/kernels/pooling.h"
#include "targets/cpu/kernels/recurrent.h"
#include "targets/cpu/kernels/weight_only.h"

namespace lathe::cpu {

inline constexpr uint32_t kKernelTableVersion = 2;

struct KernelTable {
  uint32_t version;
  uint32_t bytes;  // of this table
  std::optional<Isa> (*best_isa)();
  const BrgemmKernel& (*brgemm_kernel)(Isa isa, Product product);
  void (*pack_b)(const BrgemmKernel& kernel, Product product, const PackSource& source, void* out,
                 ThreadPool* pool);
  void (*matmul)(const MatmulCall& call, ThreadPool* pool);
  void (*matmul_dynamic)(const MatmulCall& call, const PackSource& b, int64_t b_batch_stride,
                         ThreadPool* pool);
  void (*pack_weight_only)(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                           const WeightOnlySource& source, void* packed, ThreadPool* pool);
  void (*run_weight_only)(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                          const void* packed, const WeightOnlyCall& call, Isa isa,
                          ThreadPool* pool);
  ConvForm (*choose_form)(const ConvProblem& problem, Isa isa);
  std::unique_ptr<Convolution> (*make_convolution)(ConvForm form, const ConvProblem& problem,
                                                   Isa isa);
  void (*run_attention)(const AttentionProblem& problem, Isa isa,
                        const AttentionArguments& arguments, ThreadPool* pool);
  void (*run_pooling)(const PoolingProblem& problem, Isa isa, const PoolingTensor& x,
                      const PoolingTensor& y, int64_t images, ThreadPool* pool);
  void (*run_recurrent)(const RecurrentProblem& problem, const RecurrentWeights& weights, Isa isa,
                        const RecurrentArguments& arguments, ThreadPool* pool);
};

}  // namespace lathe::cpu

// The table of this version; null if the library has another one.
extern "C" [[gnu::visibility("default")]] const lathe::cpu::KernelTable* lathe_cpu_kernels(
    uint32_t version);
