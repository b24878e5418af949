// SPDX-License-Identifier: MIT
#include "base/os_thread.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace lathe {
namespace {

std::atomic<uint64_t> generation{0};

bool count_forks() {
  return pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1); }) == 0;
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

bool pin_this_thread(int index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0) return false;
  int left = index % CPU_COUNT(&set);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

uint64_t fork_generation() {
  [[maybe_unused]] static const bool counted = count_forks();
  return generation.load(std::memory_order_relaxed);
}

}  // namespace lathe
