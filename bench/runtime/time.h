// SPDX-License-Identifier: MIT
// Times calls. The fastest counts: other processes only add time.
#pragma once

#include <algorithm>
#include <chrono>

namespace lathe::bench {

template <class F>
double seconds_of(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds of the fastest call, of at least five within about `seconds`.
template <class F>
double fastest(F&& f, double seconds = 0.5) {
  double best = seconds_of(f);
  double total = best;
  for (int calls = 1; calls < 5 || total < seconds; ++calls) {
    const double one = seconds_of(f);
    best = std::min(best, one);
    total += one;
  }
  return best;
}

}  // namespace lathe::bench
