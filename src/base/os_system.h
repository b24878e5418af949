// SPDX-License-Identifier: MIT
// The machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe {

struct SystemMemory {
  int64_t total_bytes = 0;      // 0: not known
  int64_t available_bytes = 0;  // without swapping; what files are kept in counts
};
SystemMemory system_memory();

struct SystemInfo {
  std::string kernel;     // "Linux 6.1.0 x86_64"
  std::string processor;  // its name, or its architecture
  std::vector<std::string> features;
  int available_cores = 1;  // that this process may use
  SystemMemory memory;
};
SystemInfo system_info();

}  // namespace lathe
