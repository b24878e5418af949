// SPDX-License-Identifier: MIT
#include "bench/kernels/weight_only.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "bench/kernels/inputs.h"
#include "bench/kernels/memory.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"

namespace lathe::bench {
namespace {

using namespace lathe::cpu;
using Clock = std::chrono::steady_clock;

Isa best() {
  const std::optional<Isa> isa = best_isa();
  check(isa.has_value(), ErrorKind::unsupported,
        "no kernels for this processor ({} known instruction sets)", kIsaCount);
  return *isa;
}

WeightOnlyProblem int8_problem(int64_t k, int64_t n, int bits, int64_t block) {
  WeightOnlyProblem p;
  p.k = k;
  p.n = n;
  p.bits = bits;
  p.block = block;
  p.compute = WeightOnlyCompute::int8;
  const std::string refusal = weight_only_refusal(p);
  check(refusal.empty(), ErrorKind::unsupported, "{}", refusal);
  return p;
}

class ReadyWeightOnly final : public Ready {
 public:
  ReadyWeightOnly(const Problem& p, ThreadPool& pool)
      : problem_(int8_problem(p["k"], p["n"], static_cast<int>(p["bits"]), p["block"])),
        layout_(weight_only_layout(problem_)),
        isa_(best()),
        pool_(pool),
        m_(p["m"]),
        a_(m_ * problem_.k * 4),
        y_(m_ * problem_.n * 4),
        workspace_(weight_only_workspace(problem_, layout_, m_)) {
    const std::vector<float> a = operand_values(0, m_ * problem_.k, Range::real);
    std::copy(a.begin(), a.end(), a_.floats());
    const int64_t blocks = layout_.blocks;
    std::vector<uint8_t> codes(
        static_cast<size_t>(problem_.n * blocks * problem_.block * problem_.bits / 8));
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = byte_at(i);
    std::vector<float> scales(static_cast<size_t>(problem_.n * blocks));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = scale_at(i);
    for (int64_t i = 0; i < std::max<int64_t>(1, p["rotations"]); ++i) {
      packed_.push_back(std::make_unique<Pages>(layout_.bytes));
      pack_weight_only(problem_, layout_, {codes.data(), scales.data(), nullptr, {}},
                       packed_.back()->data(), &pool);
    }
  }

  void run(int64_t count) override {
    for (int64_t i = 0; i < count; ++i) {
      multiply(packed_[next_]->data());
      next_ = (next_ + 1) % packed_.size();
    }
  }
  std::vector<float> result() override {
    multiply(packed_.front()->data());
    return {y_.floats(), y_.floats() + m_ * problem_.n};
  }
  std::string_view isa() const override { return to_string(isa_); }

  // The definition in weight_only.h, accumulated over blocks in double.
  std::optional<double> exact(size_t i) const override {
    if (problem_.bits != 4) return std::nullopt;
    const auto element = static_cast<int64_t>(i);
    const int64_t n = element % problem_.n, block = problem_.block;
    const float* const row = a_.floats() + element / problem_.n * problem_.k;
    double sum = 0;
    for (int64_t b = 0; b < layout_.blocks; ++b) {
      const int64_t begin = b * block, end = std::min(problem_.k, begin + block);
      float largest = 0;
      for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(row[k]));
      if (largest == 0) continue;
      const float factor = 127 / largest;
      double products = 0;
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = n * layout_.blocks * block + k;
        const int code = byte_at(static_cast<uint64_t>(at / 2)) >> at % 2 * 4 & 15;
        products += std::nearbyint(row[k] * factor) * static_cast<float>(code - 8);
      }
      const float scale = largest / 127 * scale_at(static_cast<uint64_t>(n * layout_.blocks + b));
      sum += products * scale;
    }
    return sum;
  }

 private:
  static uint8_t byte_at(uint64_t i) { return static_cast<uint8_t>(uniform(1, i) * 256); }
  static float scale_at(uint64_t i) { return static_cast<float>((uniform(2, i) + 0.5) / 64); }

  void multiply(const void* packed) {
    WeightOnlyCall call;
    call.a = a_.floats();
    call.a_stride = problem_.k;
    call.m = m_;
    call.y = y_.floats();
    call.y_stride = problem_.n;
    call.workspace = workspace_.data();
    run_weight_only(problem_, layout_, packed, call, isa_, &pool_);
  }

  WeightOnlyProblem problem_;
  WeightOnlyLayout layout_;
  Isa isa_;
  ThreadPool& pool_;
  int64_t m_;
  Pages a_;  // aligned to cache lines, as tensors are
  Pages y_;
  Pages workspace_;
  std::vector<std::unique_ptr<Pages>> packed_;
  size_t next_ = 0;
};

// Reads `memory` sequentially, in chunks like the panels of a GEMM.
void read_plainly(const std::byte* memory, int64_t bytes, ThreadPool& pool) {
  constexpr int64_t kChunk = 1 << 16;
  parallel_for(&pool, bytes / kChunk, 1, [&](int64_t begin, int64_t end) {
    constexpr int kAccumulators = 32;
    uint64_t accumulators[kAccumulators] = {};
    for (const std::byte* at = memory + begin * kChunk; at < memory + end * kChunk;
         at += 8 * kAccumulators) {
      uint64_t words[kAccumulators];
      std::memcpy(words, at, sizeof words);
      for (int i = 0; i < kAccumulators; ++i) accumulators[i] += words[i];
    }
    asm volatile(""
                 :
                 : "g"(std::accumulate(accumulators, accumulators + kAccumulators, uint64_t{0})));
  });
}

double seconds_of(auto&& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
}

// All layers of one decode step, each with its own weights.
class Token {
 public:
  explicit Token(int64_t block) {
    for (const Case& c : weight_only_cases(1)) {
      if (c.source != "llama_1b" || c.problem["block"] != block) continue;
      for (int64_t i = 0; i < c.count; ++i) add(c.problem["k"], c.problem["n"], block);
    }
    add(2048, 128256, block);  // LM head
  }
  int64_t bytes() const { return bytes_; }

  void run(const std::byte* weights, Isa isa, ThreadPool& pool) {
    for (const Layer& layer : layers_) {
      WeightOnlyCall call;
      call.a = a_.data();
      call.m = 1;
      call.y = y_.data();
      call.workspace = workspace_.data();
      run_weight_only(layer.problem, layer.layout, weights + layer.at, call, isa, &pool);
    }
  }

 private:
  struct Layer {
    WeightOnlyProblem problem;
    WeightOnlyLayout layout;
    int64_t at;
  };
  void add(int64_t k, int64_t n, int64_t block) {
    WeightOnlyProblem p = int8_problem(k, n, 4, block);
    p.scale_type = ElementType::f16;
    const WeightOnlyLayout layout = weight_only_layout(p);
    layers_.push_back({p, layout, bytes_});
    bytes_ += layout.bytes;
  }
  std::vector<Layer> layers_;
  int64_t bytes_ = 0;
  std::vector<float> a_ = operand_values(0, 8192, Range::real);
  std::vector<float> y_ = std::vector<float>(128256);
  Pages workspace_{1 << 20};
};

}  // namespace

std::unique_ptr<Ready> ready_weight_only(const Problem& problem, ThreadPool& pool) {
  return std::make_unique<ReadyWeightOnly>(problem, pool);
}

std::vector<Case> weight_only_cases(int64_t rows) {
  std::vector<Case> out;
  for (const int64_t block : {32, 128}) {
    for (Case c : language_model_cases(rows)) {
      // K = 576 is not a multiple of 128.
      if (c.source == "llama_8b" || (c.source == "smollm2_135m" && block != 32)) continue;
      c.problem.kind = "matmul_n_bits";
      c.problem.type = "int8";  // of the multiplications and of the peak
      c.problem.parameters = {{"m", c.problem["m"]},
                              {"n", c.problem["n"]},
                              {"k", c.problem["k"]},
                              {"bits", 4},
                              {"block", block}};
      c.problem.parameters["rotations"] = rotations(c.problem);
      out.push_back(std::move(c));
    }
  }
  return out;
}

WeightStream measure_weight_stream(int threads, int64_t block, int alternations) {
  constexpr int64_t kCopies = 3;
  Token token(block);
  const Pages memory(kCopies * token.bytes());
  // Arbitrary valid codes and scales.
  std::memset(memory.data(), 0x21, static_cast<size_t>(kCopies * token.bytes()));
  ThreadPool pool(threads);
  const Isa isa = best();
  std::vector<double> read, ours, ratios;
  for (int64_t i = 0; i < kCopies * alternations; ++i) {
    // Both read the same pages, as bandwidth depends on the pages. The copies are larger than L3,
    // so that no data remains cached.
    const std::byte* weights = memory.data() + i % kCopies * token.bytes();
    const double plain = seconds_of([&] { read_plainly(weights, token.bytes(), pool); });
    const double token_seconds = seconds_of([&] { token.run(weights, isa, pool); });
    const auto bytes = static_cast<double>(token.bytes());
    read.push_back(bytes / plain);
    ours.push_back(bytes / token_seconds);
    ratios.push_back(plain / token_seconds);
  }
  WeightStream out;
  out.block = block;
  out.isa = to_string(isa);
  out.read = quantile(read, 0.5);
  out.ours = quantile(ours, 0.5);
  out.share = quantile(ratios, 0.5);
  out.low = quantile(ratios, 0.25);
  out.high = quantile(ratios, 0.75);
  return out;
}

}  // namespace lathe::bench
