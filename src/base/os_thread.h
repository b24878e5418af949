// SPDX-License-Identifier: MIT
// Cores, affinity and forks.
#pragma once

#include <cstdint>

namespace lathe {

// Cores in this thread's affinity mask; at least 1.
int available_cores();

// Pins this thread to core `index`, modulo the count, of its affinity mask; false on failure.
bool pin_this_thread(int index);

// Incremented in the child of each fork(), where the threads of the parent do not exist.
uint64_t fork_generation();

// Spin-wait hint to the processor.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace lathe
