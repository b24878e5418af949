// SPDX-License-Identifier: MIT
#include "cli/limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/set_compute_type.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The least seconds of f: at least `runs`, and more until `seconds` have passed.
template <class F>
double least_seconds(int runs, double seconds, const F& f) {
  double best = std::numeric_limits<double>::max();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < runs || seconds_since(begin) < seconds; ++i) {
    const Clock::time_point start = Clock::now();
    f();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// The sum of words that kStreams places walk through at once, each fetching ahead.
template <size_t kStreams, size_t kAhead>
uint64_t sum_of(const uint64_t* words, size_t count) {
  constexpr size_t kLine = 8;  // words
  const size_t share = count / kStreams / kLine * kLine;
  std::array<std::array<uint64_t, kLine>, kStreams> sums{};
  for (size_t at = 0; at < share; at += kLine) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* line = words + stream * share + at;
      if constexpr (kAhead > 0) __builtin_prefetch(line + kAhead * kLine, 0, 3);
      for (size_t i = 0; i < kLine; ++i) sums[stream][i] += line[i];
    }
  }
  uint64_t sum = std::accumulate(words + kStreams * share, words + count, uint64_t{0});
  for (const auto& each : sums) sum = std::accumulate(each.begin(), each.end(), sum);
  return sum;
}

struct Product {
  int64_t m = 0, k = 0, n = 0;
};

// Runs a product with constant weights; with several launches, products of the result of the one
// before with the same weights, which are square.
std::function<void()> product_of(const Product& size, int64_t launches,
                                 const std::shared_ptr<const Target>& target,
                                 std::string_view compute, ThreadPool& pool) {
  const auto filled = [](Dims dims) {
    Tensor tensor(ElementType::f32, std::move(dims));
    int64_t i = 0;
    for (float& value : tensor.elements<float>()) value = static_cast<float>(i++ % 31 - 15) / 16;
    return tensor;
  };
  auto program = std::make_unique<Program>();
  program->name = "product";
  Builder builder(program->main());
  Value* a = program->main().add_parameter(Type::tensor(ElementType::f32, {size.m, size.k}), "a");
  Value* b = builder.literal(filled({size.k, size.n}), "b");
  for (; launches > 0; --launches) a = builder(ops::matmul, {a, b});
  program->main().set_results({a}, {"y"});
  CompileOptions options;
  options.target = target;
  options.compute = parse_compute(compute, "compute");
  options.pool = &pool;
  SessionOptions session_options;
  session_options.pool = &pool;
  const auto session =
      std::make_shared<Session>(compile(std::move(program), options), session_options);
  return [session, inputs = std::vector<Box>{Box{filled({size.m, size.k})}}] {
    std::vector<Box> results(1);
    session->run(inputs, results, {});
  };
}

}  // namespace

void BandwidthMeter::try_way(double bytes, double seconds, std::function<void()> read,
                             double beside) {
  const double found = bytes / (least_seconds(3, seconds, read) - beside);
  if (found <= best_) return;
  best_ = found;
  bytes_ = bytes;
  beside_ = beside;
  read_ = std::move(read);
}

void BandwidthMeter::add_sums(size_t bytes, ThreadPool& pool) {
  const size_t count = bytes / sizeof(uint64_t);
  const auto words = std::make_shared<const std::vector<uint64_t>>(count, 1);
  const auto add = [&](int64_t parts, uint64_t (*sum)(const uint64_t*, size_t)) {
    const size_t share = count / static_cast<size_t>(parts);
    const auto read = [words, parts, share, sum, &pool] {
      std::atomic<uint64_t> all = 0;
      parallel_for(&pool, parts, 1, [&](int64_t from, int64_t to) {
        for (auto part = static_cast<size_t>(from); part < static_cast<size_t>(to); ++part) {
          all += sum(words->data() + part * share, share);
        }
      });
      const size_t expected = share * static_cast<size_t>(parts);
      check(all == expected, ErrorKind::internal, "the sum of {} words is wrong", expected);
    };
    try_way(static_cast<double>(share * static_cast<size_t>(parts) * sizeof(uint64_t)), 0.05, read,
            0);
  };
  for (const int64_t parts : {int64_t{pool.threads()}, int64_t{64}}) {
    add(parts, sum_of<1, 0>);
    add(parts, sum_of<1, 16>);
    add(parts, sum_of<8, 0>);
    add(parts, sum_of<8, 16>);
  }
}

BandwidthMeter::BandwidthMeter(const std::shared_ptr<const Target>& target,
                               const std::set<std::string>& computes, int64_t bytes,
                               ThreadPool& pool) {
  constexpr int64_t kMebi = 1 << 20;
  bytes = std::clamp(bytes, 16 * kMebi, 256 * kMebi);
  if (target->device() == nullptr) add_sums(static_cast<size_t>(bytes), pool);
  std::set<std::string> all = computes;
  all.insert("f32");
  for (const std::string& compute : all) {
    const int64_t width = compute == "int8" ? 1 : compute == "bf16" || compute == "f16" ? 2 : 4;
    Product row{1, bytes / width / 2048 / 64 * 64, 2048};
    if (target->device() != nullptr) {
      row.k = row.n = static_cast<int64_t>(std::sqrt(static_cast<double>(bytes / width))) / 64 * 64;
    }
    std::function<void()> read = product_of(row, 1, target, compute, pool);
    int64_t launches = 1;
    double beside = 0;
    if (target->device() != nullptr) {
      const double one = least_seconds(3, 0.03, read);
      launches = launches_for(one);
      if (launches > 1) read = product_of(row, launches, target, compute, pool);
      beside = seconds_beside(one, least_seconds(3, 0.03, read), launches);
    }
    try_way(static_cast<double>(launches * row.k * row.n * width), 0.1, std::move(read), beside);
  }
}

double BandwidthMeter::measure() const {
  return bytes_ / (least_seconds(3, 0.03, read_) - beside_);
}

double measure_bandwidth(const std::shared_ptr<const Target>& target,
                         const std::set<std::string>& computes, int64_t bytes, ThreadPool& pool) {
  return BandwidthMeter(target, computes, bytes, pool).best();
}

double measure_products(const std::shared_ptr<const Target>& target, std::string_view compute,
                        ThreadPool& pool) {
  double best = 0;
  for (const Product& size : {Product{768, 768, 768}, Product{1024, 1024, 1024},
                              Product{512, 512, 2048}, Product{512, 2048, 512}}) {
    const double seconds = least_seconds(3, 0.2, product_of(size, 1, target, compute, pool));
    best = std::max(best, static_cast<double>(size.m * size.k * size.n) / seconds);
  }
  return best;
}

}  // namespace lathe::cli
