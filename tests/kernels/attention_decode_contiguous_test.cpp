// SPDX-License-Identifier: MIT
// Decode over a long contiguous KV cache: the fused kernel has the bits of one block per task and
// of the prefill kernel. (Processors without the fused kernel run the same blocks in both cases.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/attention/attention.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

struct Shape {
  int64_t heads = 4;
  int64_t key_heads = 1;
  int64_t size = 64;
  int64_t value_size = 64;
  int64_t keys = 700;  // five blocks and a remainder
  int64_t queries = 40;
  int64_t left = -1;
};

// Normally distributed values.
void fill(Guarded& to, std::mt19937& random) {
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < to.count(); ++i) to.set(i, normal(random));
}

class LongCache {
 public:
  LongCache(const Shape& s, ElementType type)
      : shape_(s),
        q_(type, s.heads * s.queries * s.size),
        k_(type, s.key_heads * s.keys * s.size),
        v_(type, s.key_heads * s.keys * s.value_size),
        y_(ElementType::f32, s.heads * s.queries * s.value_size) {
    std::mt19937 random(static_cast<uint32_t>(s.heads * 1000 + s.size + s.value_size));
    fill(q_, random);
    fill(k_, random);
    fill(v_, random);
    problem_.heads = s.heads;
    problem_.key_heads = s.key_heads;
    problem_.size = s.size;
    problem_.value_size = s.value_size;
    problem_.query = problem_.cache = type;
    problem_.result = ElementType::f32;
    problem_.use_bf16 = type == ElementType::bf16;
    problem_.scale = 1 / std::sqrt(static_cast<double>(s.size));
    problem_.causal = true;
    problem_.left = s.left;
  }
  Guarded& keys() { return k_; }

  // Runs `chunk` queries per call and `split` blocks per task.
  std::vector<float> run(Isa isa, int64_t chunk, int64_t split, ThreadPool& pool) {
    const Shape& s = shape_;
    const Attention attention(problem_, isa);
    std::fill_n(reinterpret_cast<float*>(y_.data()), y_.count(), 0.0F);
    for (int64_t begin = 0; begin < s.queries; begin += chunk) {
      const int64_t first = s.keys - s.queries + begin;
      AttentionArguments x;
      x.batch = 1;
      x.queries = std::min(chunk, s.queries - begin);
      x.q = {q_.data() + bytes_for(q_.type(), begin * s.size), 0, s.queries * s.size, s.size};
      x.y = {y_.data() + bytes_for(y_.type(), begin * s.value_size), 0, s.queries * s.value_size,
             s.value_size};
      x.k.data = k_.data();
      x.k.head = s.keys * s.size;
      x.k.row = s.size;
      x.v.data = v_.data();
      x.v.head = s.keys * s.value_size;
      x.v.row = s.value_size;
      x.first = &first;
      x.length = &s.keys;
      x.split = split;
      attention.run(x, &pool);
    }
    EXPECT_TRUE(y_.guards_hold());
    const auto* results = reinterpret_cast<const float*>(y_.data());
    return {results, results + y_.count()};
  }

 private:
  const Shape shape_;
  Guarded q_, k_, v_, y_;
  AttentionProblem problem_;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr Shape kShapes[] = {
    {.heads = 4},
    {.heads = 3, .size = 32},
    {.heads = 4, .key_heads = 2, .size = 80, .value_size = 128},
    {.heads = 2, .key_heads = 2, .size = 128, .value_size = 128},
    {.heads = 4, .size = 128, .value_size = 64, .left = 300},
    {.heads = 9, .key_heads = 3, .keys = 5000, .queries = 6},  // several fused calls
    {.heads = 1, .size = 24, .keys = 256, .queries = 3},
};

TEST(ContiguousDecode, HasTheSameBitsForAnyBlockSplitAndTokenCount) {
  ThreadPool one(1), three(3);
  for (const Isa isa : host_isas()) {
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(testing::Message()
                     << to_string(isa) << ", " << to_string(type) << ", " << shape.heads
                     << " heads of " << shape.size << " and " << shape.value_size);
        LongCache cache(shape, type);
        const std::vector<float> expected = cache.run(isa, 1, 1, one);  // one block per task
        EXPECT_TRUE(same(cache.run(isa, shape.queries, 0, three), expected)) << "all queries";
        for (const int64_t split : {0, 2, 3, 64}) {
          EXPECT_TRUE(same(cache.run(isa, 1, split, one), expected)) << "split " << split;
          EXPECT_TRUE(same(cache.run(isa, 1, split, three), expected))
              << "split " << split << ", three threads";
        }
        EXPECT_TRUE(same(cache.run(isa, 2, 64, three), expected)) << "two queries per call";
      }
    }
  }
}

// New threads hold no scratch from larger shapes.
TEST(ContiguousDecode, ScratchCoversAPartialLastTile) {
  constexpr Shape kShape{.heads = 1, .size = 8, .keys = 1024, .queries = 52};
  ThreadPool one(1);
  for (const Isa isa : host_isas()) {
    LongCache cache(kShape, ElementType::f32);
    std::vector<float> found;
    std::thread([&] { found = cache.run(isa, kShape.queries, 4, one); }).join();
    EXPECT_TRUE(same(found, cache.run(isa, 1, 1, one))) << to_string(isa);
  }
}

// A non-finite key affects the same results as with one block per task.
TEST(ContiguousDecode, NonFiniteKeysHaveTheSameEffectForAnyBlockSplit) {
  ThreadPool pool(2);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Isa isa : host_isas()) {
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      for (const double value : {kInfinity, -kInfinity, std::nan("")}) {
        for (const int64_t key : {5, 140, 400}) {
          SCOPED_TRACE(testing::Message() << to_string(isa) << ", " << to_string(type) << ", key "
                                          << key << " of " << value);
          const Shape shape{.queries = 4};
          LongCache cache(shape, type);
          for (int64_t i = 0; i < shape.size; ++i) cache.keys().set(key * shape.size + i, value);
          const std::vector<float> expected = cache.run(isa, 1, 1, pool);
          const std::vector<float> found = cache.run(isa, 1, 64, pool);
          ASSERT_EQ(expected.size(), found.size());
          for (size_t i = 0; i < found.size(); ++i) {
            ASSERT_TRUE(found[i] == expected[i] ||
                        (std::isnan(found[i]) && std::isnan(expected[i])))
                << "result " << i << ": expected " << expected[i] << ", found " << found[i];
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::test
