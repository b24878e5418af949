// SPDX-License-Identifier: MIT
// Properties of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe {

struct SystemMemory {
  int64_t total_bytes = 0;      // 0: unknown
  int64_t available_bytes = 0;  // without swapping; includes the page cache
};
SystemMemory system_memory();

struct SystemInfo {
  std::string kernel;     // "Linux 6.1.0 x86_64"
  std::string processor;  // model name, or architecture
  std::vector<std::string> features;
  int available_cores = 1;  // cores in the affinity mask
  SystemMemory memory;
};
SystemInfo system_info();

}  // namespace lathe
