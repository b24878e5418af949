// SPDX-License-Identifier: MIT
// What a process requires of all its GPU targets. Set before the first is used.
#pragma once

#include <cstdint>
#include <string>

namespace lathe::gpu {

struct Settings {
  std::string libraries;     // folders of vendors' libraries, separated by colons
  int64_t memory_limit = 0;  // bytes of a device; 0: all
  bool count = false;        // gpu:host counts what kernels touch
};

// Until then: the folders of LATHE_GPU_LIBRARIES, no limit.
void set_settings(Settings settings);
Settings settings();

}  // namespace lathe::gpu
