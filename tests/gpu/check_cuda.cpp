// SPDX-License-Identifier: MIT
// Compiled by `make check-cuda` with NVIDIA's headers: our declarations of functions, structures
// and numbers fit theirs.
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nvrtc.h>

#include <cstddef>
#include <cstdint>

#include "targets/gpu/driver/native_types.h"
#include "targets/gpu/libraries/cublaslt_numbers.h"
#include "targets/gpu/libraries/cudnn_numbers.h"
#include "tests/gpu/check_calls.h"

namespace lathe::gpu {
namespace {

using namespace native;

#define LATHE_FUNCTION(name, type, vendor) static_assert(calls_alike<type>(vendor), #vendor);
#include "targets/gpu/libraries/cublaslt_functions.inc"
#include "targets/gpu/libraries/cudnn_functions.inc"
#undef LATHE_FUNCTION
#define LATHE_FUNCTION(name, type, cuda, hip) static_assert(calls_alike<type>(cuda), #cuda);
#define LATHE_CUDA_FUNCTION(name, type, cuda) static_assert(calls_alike<type>(cuda), #cuda);
#define LATHE_HIP_FUNCTION(name, type, hip)
#include "targets/gpu/code/compiler_functions.inc"
#include "targets/gpu/driver/native_functions.inc"
#undef LATHE_FUNCTION

#define LATHE_NUMBER(name, value, vendor) \
  static_assert((value) == static_cast<int>(vendor), #vendor);
LATHE_CUBLASLT_NUMBERS(LATHE_NUMBER)
LATHE_CUDNN_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER
#define LATHE_NUMBER(name, cuda, cuda_name, hip, hip_name) \
  static_assert((cuda) == static_cast<int>(cuda_name), #cuda_name);
LATHE_DRIVER_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER

static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, win32) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(sizeof(MemoryLocation) == sizeof(CUmemLocation));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfiguration) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfiguration, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfiguration, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(LaunchAttribute{}.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

static_assert(sizeof(CublasLtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLtHeuristic, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLtHeuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace
}  // namespace lathe::gpu
