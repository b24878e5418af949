// SPDX-License-Identifier: MIT
// Where vendors' libraries lie: the folders of --gpu-libraries, the loader's path, those of
// Python's packages `nvidia-*`, and the usual ones of CUDA and ROCm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/os_library.h"

namespace lathe::gpu {

enum class VendorLibrary : uint8_t { nvrtc, hiprtc, cublaslt, cudnn, cuda_driver, hip_driver };
struct VendorLibraryInfo {
  std::string_view name;  // "cuBLASLt"
  std::span<const char* const> files;
  std::string_view package;  // that has it: "PyPI's nvidia-cublas"
  std::string_view without;  // what a missing one costs
};
const VendorLibraryInfo& info(VendorLibrary library);

// The first of its files that opens, in the order of folders, then names; null: none. `reason`:
// what was tried.
std::shared_ptr<const DynamicLibrary> open_vendor_library(VendorLibrary library,
                                                          std::string* reason);

// Sets `function` to the library's one of that name. False, with the reason, if there is none.
template <class F>
bool find_function(const DynamicLibrary& library, const std::string& name, F& function,
                   std::string* reason) {
  function = reinterpret_cast<F>(library.symbol(name.c_str()));
  if (function == nullptr && reason != nullptr) {
    *reason = library.path() + " has no function " + name;
  }
  return function != nullptr;
}

// Version and path of a library that opens, else what is missing and what that costs.
std::string describe(VendorLibrary library);

// The first address in a scratch memory that libraries take.
inline void* aligned_workspace(void* workspace) {
  constexpr uintptr_t kAlignment = 256;
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  return static_cast<std::byte*>(workspace) + (kAlignment - address % kAlignment) % kAlignment;
}

}  // namespace lathe::gpu
