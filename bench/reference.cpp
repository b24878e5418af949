// SPDX-License-Identifier: MIT
// Matmul and conv on the reference target, in GFLOP/s, with the peak of separate multiplications
// and additions in 256-bit vectors, measured in the same run on the same threads.
#include <benchmark/benchmark.h>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

Box filled(Dims dims) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(i % 31) * 0.125F - 1.5F;
  }
  return Box{std::move(tensor)};
}

void run_program(benchmark::State& state, const std::string& text, std::vector<Dims> shapes,
                 double flops) {
  ThreadPool pool;
  Session session(compile(parse_program(text)), {.pool = &pool, .warn = {}});
  std::vector<Box> inputs;
  for (Dims& dims : shapes) inputs.push_back(filled(std::move(dims)));
  for (auto _ : state) {
    std::vector<Box> results = session.run(inputs);
    benchmark::DoNotOptimize(results.data());
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["threads"] = pool.threads();
}

void matmul(benchmark::State& state) {
  const int64_t m = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  run_program(state,
              fmt::format("program \"matmul\" stage imported {{\n"
                          "  module @main(%a: f32[{0}, {2}], %b: f32[{2}, {1}]) {{\n"
                          "    %y = matmul(%a, %b)\n    return %y as \"y\"\n  }}\n}}\n",
                          m, n, k),
              {{m, k}, {k, n}}, 2.0 * static_cast<double>(m * n * k));
}

void conv3x3(benchmark::State& state) {
  const int64_t channels = state.range(0);
  const int64_t size = state.range(1);
  run_program(state,
              fmt::format("program \"conv\" stage imported {{\n"
                          "  module @main(%x: f32[1, {0}, {1}, {1}], %w: f32[{0}, {0}, 3, 3]) {{\n"
                          "    %y = conv(%x, %w) {{pads = [1, 1, 1, 1]}}\n"
                          "    return %y as \"y\"\n  }}\n}}\n",
                          channels, size),
              {{1, channels, size, size}, {channels, channels, 3, 3}},
              2.0 * 9.0 * static_cast<double>(channels * channels * size * size));
}

constexpr int kLanes = 96;

// Independent multiplications and additions in registers.
#if defined(__x86_64__)
[[gnu::target("avx2")]]
#endif
void multiply_and_add(float* accumulators, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    for (int lane = 0; lane < kLanes; ++lane)
      accumulators[lane] = accumulators[lane] * 0.999F + 0.5F;
  }
}

void peak(benchmark::State& state) {
  ThreadPool pool;
  constexpr int64_t kSteps = 200000;
  for (auto _ : state) {
    auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float accumulators[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) accumulators[lane] = static_cast<float>(lane);
        multiply_and_add(accumulators, kSteps);
        benchmark::DoNotOptimize(accumulators);
      }
    };
    parallel_for(&pool, pool.threads(), 1, body);
  }
  const double flops = 2.0 * kLanes * static_cast<double>(kSteps) * pool.threads();
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["threads"] = pool.threads();
}

BENCHMARK(peak)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(matmul)
    ->Args({512, 512, 512})
    ->Args({128, 768, 3072})
    ->Args({1, 2048, 2048})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(conv3x3)->Args({64, 56})->Args({256, 14})->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lathe

BENCHMARK_MAIN();
