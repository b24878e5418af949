// SPDX-License-Identifier: MIT
#include "cli/bandwidth.h"

#include <array>
#include <chrono>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace lathe::cli {

double measure_bandwidth(ThreadPool& pool) {
  constexpr size_t kWords = size_t{192} << 17;  // 192 MiB
  constexpr int64_t kParts = 64;
  const std::vector<uint64_t> words(kWords, 1);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    std::array<uint64_t, kParts> sums{};
    const auto begin = std::chrono::steady_clock::now();
    parallel_for(&pool, kParts, 1, [&](int64_t from, int64_t to) {
      const size_t share = kWords / kParts;
      for (int64_t part = from; part < to; ++part) {
        const auto* first = words.data() + static_cast<size_t>(part) * share;
        sums[static_cast<size_t>(part)] = std::accumulate(first, first + share, uint64_t{0});
      }
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    check(std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == kWords, ErrorKind::internal,
          "the sum of {} words is wrong", kWords);
    best = std::max(best, static_cast<double>(kWords * sizeof(uint64_t)) / time.count());
  }
  return best;
}

}  // namespace lathe::cli
