// SPDX-License-Identifier: MIT
// Work of several threads of a test: compilers of device code take most of one processor each.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace lathe::test {

// Calls body(0) … body(count - 1), which must not throw, by as many threads as there are
// processors.
template <class F>
void in_parallel(size_t count, const F& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  const size_t most = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < std::min(most, count); ++i) threads.emplace_back(work);
  work();
}

}  // namespace lathe::test
