// SPDX-License-Identifier: MIT
// Compiled by `make check-rocm` with AMD's headers: our declarations of functions, structures and
// numbers fit theirs.
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <cstddef>

#include "targets/gpu/driver/native_types.h"
#include "tests/gpu/check_calls.h"

namespace lathe::gpu {
namespace {

using namespace native;

#define LATHE_FUNCTION(name, type, cuda, hip) static_assert(calls_alike<type>(hip), #hip);
#define LATHE_CUDA_FUNCTION(name, type, cuda)
#define LATHE_HIP_FUNCTION(name, type, hip) static_assert(calls_alike<type>(hip), #hip);
#include "targets/gpu/code/compiler_functions.inc"
#include "targets/gpu/driver/native_functions.inc"

#define LATHE_NUMBER(name, cuda, cuda_name, hip, hip_name) \
  static_assert((hip) == static_cast<int>(hip_name), #hip_name);
LATHE_DRIVER_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER
static_assert(kCopyByAddress == static_cast<int>(hipMemcpyDefault));

static_assert(sizeof(AllocationProperties) == sizeof(hipMemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(hipMemAllocationProp, location));
static_assert(offsetof(AllocationProperties, win32) ==
              offsetof(hipMemAllocationProp, win32HandleMetaData));
static_assert(sizeof(MemoryLocation) == sizeof(hipMemLocation));
static_assert(sizeof(AccessDescription) == sizeof(hipMemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(hipMemAccessDesc, flags));

}  // namespace
}  // namespace lathe::gpu
