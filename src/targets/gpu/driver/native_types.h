// SPDX-License-Identifier: MIT
// Structures and numbers of the vendors' drivers, declared here so that nothing of a vendor is
// needed to build; `make check-cuda` and `make check-rocm` compare them with the headers.
#pragma once

#include "targets/gpu/driver/driver.h"

namespace lathe::gpu::native {

// Structures that both vendors lay out alike.
struct MemoryLocation {
  int type = 1;  // kOnDevice
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // kPinned
  int handle_types = 0;
  MemoryLocation location;
  void* win32 = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  MemoryLocation location;
  int flags = 3;  // kReadAndWrite
};

// CUDA's launches with attributes.
struct LaunchAttribute {
  int id = 6;  // kSerializes
  char padding[4] = {};
  union {
    char bytes[64] = {};
    int allowed;
  } value;
};
struct LaunchConfiguration {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned count = 0;  // of attributes
};

// A number of either vendor.
struct Number {
  int cuda;
  int hip;
  constexpr int of(Vendor vendor) const { return vendor == Vendor::cuda ? cuda : hip; }
};

// LATHE_NUMBER(name, CUDA's value, CUDA's name, HIP's value, HIP's name)
#define LATHE_DRIVER_NUMBERS(LATHE_NUMBER)                                               \
  LATHE_NUMBER(kMultiprocessors, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 63,       \
               hipDeviceAttributeMultiprocessorCount)                                    \
  LATHE_NUMBER(kWave, 10, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 87, hipDeviceAttributeWarpSize) \
  LATHE_NUMBER(kSharedBytes, 8, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 74,     \
               hipDeviceAttributeMaxSharedMemoryPerBlock)                                \
  LATHE_NUMBER(kMajor, 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 23,             \
               hipDeviceAttributeComputeCapabilityMajor)                                 \
  LATHE_NUMBER(kMinor, 76, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 61,             \
               hipDeviceAttributeComputeCapabilityMinor)                                 \
  LATHE_NUMBER(kOutOfMemory, 2, CUDA_ERROR_OUT_OF_MEMORY, 2, hipErrorOutOfMemory)        \
  LATHE_NUMBER(kNotReady, 600, CUDA_ERROR_NOT_READY, 600, hipErrorNotReady)              \
  LATHE_NUMBER(kNonBlocking, 1, CU_STREAM_NON_BLOCKING, 1, hipStreamNonBlocking)         \
  LATHE_NUMBER(kWithoutTiming, 2, CU_EVENT_DISABLE_TIMING, 2, hipEventDisableTiming)     \
  LATHE_NUMBER(kThreadLocalCapture, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1,           \
               hipStreamCaptureModeThreadLocal)                                          \
  LATHE_NUMBER(kMemoryType, 2, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2,                      \
               HIP_POINTER_ATTRIBUTE_MEMORY_TYPE)                                        \
  LATHE_NUMBER(kDeviceMemory, 2, CU_MEMORYTYPE_DEVICE, 2, hipMemoryTypeDevice)           \
  LATHE_NUMBER(kOnDevice, 1, CU_MEM_LOCATION_TYPE_DEVICE, 1, hipMemLocationTypeDevice)   \
  LATHE_NUMBER(kPinned, 1, CU_MEM_ALLOCATION_TYPE_PINNED, 1, hipMemAllocationTypePinned) \
  LATHE_NUMBER(kReadAndWrite, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3,                  \
               hipMemAccessFlagsProtReadWrite)
#define LATHE_NUMBER(name, cuda, cuda_name, hip, hip_name) inline constexpr Number name{cuda, hip};
LATHE_DRIVER_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER
inline constexpr int kCopyByAddress = 4;  // HIP: the direction follows from the addresses

}  // namespace lathe::gpu::native
