// SPDX-License-Identifier: MIT
#include "bench/kernels/peak.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/os_memory.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using cpu::Isa;

// Vector loops hide the FMA latency with kChains independent accumulators; asm statements keep
// these in registers.
struct Loop {
  std::string_view type;
  Isa isa;
  double operations;  // per step
  void (*run)(int64_t steps);
};

constexpr int kChains = 12;

[[gnu::target("avx2,fma")]] void f32_avx2(int64_t steps) {
  __m256 accumulators[kChains]{};
  const __m256 x = _mm256_set1_ps(0.5F);
  for (int64_t i = 0; i < steps; ++i) {
    for (__m256& sum : accumulators) sum = _mm256_fmadd_ps(x, x, sum);
    for (__m256& sum : accumulators) asm volatile("" : "+x"(sum));
  }
}

[[gnu::target("avx2,avxvnni")]] void int8_avx2_vnni(int64_t steps) {
  __m256i accumulators[kChains]{};
  const __m256i x = _mm256_set1_epi8(1);
  for (int64_t i = 0; i < steps; ++i) {
    for (__m256i& sum : accumulators) sum = _mm256_dpbusd_avx_epi32(sum, x, x);
    for (__m256i& sum : accumulators) asm volatile("" : "+x"(sum));
  }
}

[[gnu::target("avx512f")]] void f32_avx512(int64_t steps) {
  __m512 accumulators[kChains]{};
  const __m512 x = _mm512_set1_ps(0.5F);
  for (int64_t i = 0; i < steps; ++i) {
    for (__m512& sum : accumulators) sum = _mm512_fmadd_ps(x, x, sum);
    for (__m512& sum : accumulators) asm volatile("" : "+v"(sum));
  }
}

[[gnu::target("avx512f,avx512bf16")]] void bf16_avx512(int64_t steps) {
  __m512 accumulators[kChains]{};
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F00));
  for (int64_t i = 0; i < steps; ++i) {
    for (__m512& sum : accumulators) sum = _mm512_dpbf16_ps(sum, x, x);
    for (__m512& sum : accumulators) asm volatile("" : "+v"(sum));
  }
}

[[gnu::target("avx512f,avx512vnni")]] void int8_avx512(int64_t steps) {
  __m512i accumulators[kChains]{};
  const __m512i x = _mm512_set1_epi8(1);
  for (int64_t i = 0; i < steps; ++i) {
    for (__m512i& sum : accumulators) sum = _mm512_dpbusd_epi32(sum, x, x);
    for (__m512i& sum : accumulators) asm volatile("" : "+v"(sum));
  }
}

// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14]{};
  uint16_t columns[16]{64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
};

[[gnu::target("amx-tile,amx-bf16")]] void bf16_amx(int64_t steps) {
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(4), _tile_zero(5), _tile_zero(6), _tile_zero(7);
  for (int64_t i = 0; i < steps; ++i) {
    _tile_dpbf16ps(0, 4, 6), _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6), _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

[[gnu::target("amx-tile,amx-int8")]] void int8_amx(int64_t steps) {
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(4), _tile_zero(5), _tile_zero(6), _tile_zero(7);
  for (int64_t i = 0; i < steps; ++i) {
    _tile_dpbusd(0, 4, 6), _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6), _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

constexpr Loop kLoops[] = {
    {"f32", Isa::avx2, 2.0 * 8 * kChains, f32_avx2},
    {"f32", Isa::avx512, 2.0 * 16 * kChains, f32_avx512},
    {"bf16", Isa::avx512_bf16, 2.0 * 32 * kChains, bf16_avx512},
    {"bf16", Isa::amx, 2.0 * 16 * 16 * 32 * 4, bf16_amx},
    {"int8", Isa::avx2_vnni, 2.0 * 32 * kChains, int8_avx2_vnni},
    {"int8", Isa::avx512_vnni, 2.0 * 64 * kChains, int8_avx512},
    {"int8", Isa::amx, 2.0 * 16 * 16 * 64 * 4, int8_amx},
};

// Seconds until all threads, started together, have run `body` once.
template <class F>
double time_together(int threads, F&& body) {
  std::atomic<int> waiting{threads};
  std::vector<std::thread> others;
  Clock::time_point begin;
  const auto meet = [&](int thread) {
    waiting.fetch_sub(1);
    while (waiting.load(std::memory_order_acquire) > 0) {
    }
    if (thread == 0) begin = Clock::now();
    body(thread);
  };
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(meet, thread);
  meet(0);
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[gnu::target("avx2")]] uint64_t read_all(const std::byte* from, int64_t bytes) {
  __m256i accumulators[8]{};
  for (int64_t at = 0; at + 256 <= bytes; at += 256) {
    for (int i = 0; i < 8; ++i) {
      accumulators[i] = _mm256_add_epi64(
          accumulators[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at) + i));
    }
  }
  uint64_t total = 0;
  for (const __m256i& sum : accumulators)
    total += static_cast<uint64_t>(_mm256_extract_epi64(sum, 0));
  return total;
}

}  // namespace

std::vector<Peak> measure_peaks(int threads) {
  constexpr int kRuns = 5;
  constexpr double kSeconds = 0.012;
  std::vector<Peak> peaks;
  for (const Loop& loop : kLoops) {
    if (!cpu::host_supports(loop.isa)) continue;
    int64_t steps = 1000;
    double best = 0;
    for (int run = 0; run <= kRuns; ++run) {
      const double seconds = time_together(threads, [&](int) { loop.run(steps); });
      const double rate = loop.operations * static_cast<double>(steps) * threads / seconds;
      if (run > 0) best = std::max(best, rate);
      if (run == 0) steps = std::max<int64_t>(1, static_cast<int64_t>(kSeconds / seconds * 1000));
    }
    peaks.push_back({std::string(loop.type), std::string(cpu::to_string(loop.isa)), best});
  }
  return peaks;
}

double measure_peak(const std::string& type, const std::string& isa, ThreadPool& pool,
                    double seconds) {
  constexpr int64_t kParts = 32;  // per thread; claimed dynamically, like GEMM chunks
  constexpr double kTrialSeconds = 1e-4;
  const Loop* best = nullptr;
  for (const Loop& loop : kLoops) {
    if (loop.type != type || !cpu::host_supports(loop.isa)) continue;
    if (best == nullptr || cpu::to_string(loop.isa) == isa ||
        (cpu::to_string(best->isa) != isa && loop.operations > best->operations)) {
      best = &loop;
    }
  }
  if (best == nullptr) return 0;
  const int64_t parts = kParts * pool.threads();
  int64_t steps = 20;
  // The first trial wakes the threads; the second determines the number of steps.
  for (const double target_seconds : {kTrialSeconds, seconds, 0.0}) {
    const Clock::time_point begin = Clock::now();
    parallel_for(&pool, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) best->run(steps);
    });
    const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
    const auto done = static_cast<double>(steps);
    if (target_seconds == 0) return best->operations * done * static_cast<double>(parts) / taken;
    steps = std::max<int64_t>(1, static_cast<int64_t>(target_seconds / taken * done));
  }
  return 0;
}

double fastest(const std::vector<Peak>& peaks, const std::string& type) {
  double rate = 0;
  for (const Peak& peak : peaks) {
    if (peak.type == type) rate = std::max(rate, peak.rate);
  }
  return rate;
}

void read_memory(std::span<const std::span<const std::byte>> parts, ThreadPool& pool) {
  std::atomic<uint64_t> total{0};
  const int64_t threads = pool.threads();
  const auto count = static_cast<int64_t>(parts.size());
  parallel_for(&pool, count * threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::span<const std::byte> part = parts[static_cast<size_t>(i / threads)];
      const auto cut = [&](int64_t at) {
        return static_cast<int64_t>(part.size()) / 256 * at / threads * 256;
      };
      total += read_all(part.data() + cut(i % threads), cut(i % threads + 1) - cut(i % threads));
    }
  });
}

double measure_read_bandwidth(int threads, int64_t bytes) {
  constexpr int kRuns = 4;
  auto* memory = static_cast<std::byte*>(reserve_pages(static_cast<size_t>(bytes)));
  if (memory == nullptr) return 0;
  prefer_large_pages(memory, static_cast<size_t>(bytes));  // as for packed weights
  const int64_t share = bytes / threads / 256 * 256;
  double best = 0;
  std::atomic<uint64_t> total{0};
  for (int run = 0; run <= kRuns; ++run) {
    const double seconds = time_together(threads, [&](int thread) {
      std::byte* own = memory + thread * share;
      if (run == 0) std::fill(own, own + share, std::byte{1});
      total += read_all(own, share);
    });
    if (run > 0) best = std::max(best, static_cast<double>(share * threads) / seconds);
  }
  release_pages(memory, static_cast<size_t>(bytes));
  return best;
}

}  // namespace lathe::bench
