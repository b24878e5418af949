// SPDX-License-Identifier: MIT
// What threads need to know of the system.
#pragma once

#include <cstdint>

namespace lathe {

// Cores that this thread may run on; at least 1.
int available_cores();

// Keeps this thread on one of the cores that it may run on, counted from 0 and around; false if
// the system refuses.
bool pin_this_thread(int index);

// Rises in every child that fork() makes: what had threads before has none there.
uint64_t fork_generation();

// Between two looks at a variable that another core is about to write.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace lathe
