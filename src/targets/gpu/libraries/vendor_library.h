// SPDX-License-Identifier: MIT
// Where vendors' libraries lie: the folders of --gpu-libraries, the loader's path, those of
// Python's packages `nvidia-*`, and the usual ones of CUDA and ROCm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/os_library.h"

namespace lathe::gpu {

// The first that opens, in the order of folders, then names; null: none. `reason`: what was tried.
std::shared_ptr<const DynamicLibrary> open_vendor_library(std::span<const char* const> names,
                                                          std::string* reason);

// The first address in a scratch memory that libraries take.
inline void* aligned_workspace(void* workspace) {
  constexpr uintptr_t kAlignment = 256;
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  return static_cast<std::byte*>(workspace) + (kAlignment - address % kAlignment) % kAlignment;
}

}  // namespace lathe::gpu
