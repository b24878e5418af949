// SPDX-License-Identifier: MIT
// In place of a driver of NVIDIA's without what older ones lack; it finds no device.
#define LATHE_FUNCTION(name, type, cuda, hip) \
  extern "C" int cuda() { return 0; }
#define LATHE_CUDA_FUNCTION(name, type, cuda) \
  extern "C" int cuda() { return 0; }
#define LATHE_CUDA_OPTIONAL(name, type, cuda)
#define LATHE_HIP_FUNCTION(name, type, hip)
#include "targets/gpu/driver/native_functions.inc"
