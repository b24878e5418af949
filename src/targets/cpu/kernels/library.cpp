// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/library.h"

namespace lathe::cpu {
namespace {

constexpr KernelTable kTable{
    .version = kKernelTableVersion,
    .bytes = sizeof(KernelTable),
    .best_isa = best_isa,
    .brgemm_kernel = brgemm_kernel,
    .pack_b = pack_b,
    .matmul = matmul,
    .matmul_dynamic = matmul_dynamic,
    .pack_weight_only = pack_weight_only,
    .run_weight_only = run_weight_only,
    .choose_form = choose_form,
    .make_convolution = make_convolution,
    .run_attention = [](const AttentionProblem& problem, Isa isa,
                        const AttentionArguments& arguments,
                        ThreadPool* pool) { Attention(problem, isa).run(arguments, pool); },
    .run_pooling = [](const PoolingProblem& problem, Isa isa, const PoolingTensor& x,
                      const PoolingTensor& y, int64_t images,
                      ThreadPool* pool) { Pooling(problem, isa).run(x, y, images, pool); },
    .run_recurrent =
        [](const RecurrentProblem& problem, const RecurrentWeights& weights, Isa isa,
           const RecurrentArguments& arguments,
           ThreadPool* pool) { Recurrent(problem, weights, isa).run(arguments, pool); },
};

}  // namespace
}  // namespace lathe::cpu

const lathe::cpu::KernelTable* lathe_cpu_kernels(uint32_t version) {
  return version == lathe::cpu::kKernelTableVersion ? &lathe::cpu::kTable : nullptr;
}
