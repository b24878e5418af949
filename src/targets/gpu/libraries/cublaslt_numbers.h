// SPDX-License-Identifier: MIT
// Numbers and structures of cuBLASLt, declared here so that nothing of the vendor is needed to
// build; `make check-cuda` compares them with its headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::gpu {

struct CublasLtAlgorithm {
  uint64_t data[8];
};
struct CublasLtHeuristic {
  CublasLtAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

namespace cublaslt {

// LATHE_NUMBER(name, value, cuBLASLt's name)
#define LATHE_CUBLASLT_NUMBERS(LATHE_NUMBER)                                       \
  LATHE_NUMBER(kTypeF32, 0, CUDA_R_32F)                                            \
  LATHE_NUMBER(kTypeF64, 1, CUDA_R_64F)                                            \
  LATHE_NUMBER(kTypeF16, 2, CUDA_R_16F)                                            \
  LATHE_NUMBER(kTypeBf16, 14, CUDA_R_16BF)                                         \
  LATHE_NUMBER(kComputeF32, 68, CUBLAS_COMPUTE_32F)                                \
  LATHE_NUMBER(kComputeF64, 70, CUBLAS_COMPUTE_64F)                                \
  LATHE_NUMBER(kTransposed, 1, CUBLAS_OP_T)                                        \
  LATHE_NUMBER(kProductTransA, 3, CUBLASLT_MATMUL_DESC_TRANSA)                     \
  LATHE_NUMBER(kProductTransB, 4, CUBLASLT_MATMUL_DESC_TRANSB)                     \
  LATHE_NUMBER(kProductEpilogue, 7, CUBLASLT_MATMUL_DESC_EPILOGUE)                 \
  LATHE_NUMBER(kProductBias, 8, CUBLASLT_MATMUL_DESC_BIAS_POINTER)                 \
  LATHE_NUMBER(kLayoutBatches, 5, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)              \
  LATHE_NUMBER(kLayoutBatchStride, 6, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) \
  LATHE_NUMBER(kPreferWorkspace, 1, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)      \
  LATHE_NUMBER(kPreferAlignmentA, 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)   \
  LATHE_NUMBER(kPreferAlignmentB, 6, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)   \
  LATHE_NUMBER(kPreferAlignmentC, 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)   \
  LATHE_NUMBER(kPreferAlignmentD, 8, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)   \
  LATHE_NUMBER(kEpilogueNone, 1, CUBLASLT_EPILOGUE_DEFAULT)                        \
  LATHE_NUMBER(kEpilogueRelu, 2, CUBLASLT_EPILOGUE_RELU)                           \
  LATHE_NUMBER(kEpilogueBias, 4, CUBLASLT_EPILOGUE_BIAS)                           \
  LATHE_NUMBER(kEpilogueReluBias, 6, CUBLASLT_EPILOGUE_RELU_BIAS)                  \
  LATHE_NUMBER(kEpilogueGelu, 32, CUBLASLT_EPILOGUE_GELU)                          \
  LATHE_NUMBER(kEpilogueGeluBias, 36, CUBLASLT_EPILOGUE_GELU_BIAS)

#define LATHE_NUMBER(name, value, vendor_name) inline constexpr int name = value;
LATHE_CUBLASLT_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER

}  // namespace cublaslt
}  // namespace lathe::gpu
