// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/convert.h"
#include "tests/kernels/support/attention_case.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

TEST(Attention, RandomProblemsMatchANaiveLoop) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases); ++seed) {
    AttentionCase c(static_cast<uint32_t>(seed), seed % 19 == 0 ? Extent::middle : Extent::small);
    const Isa isa = isa_for_case(seed);
    SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
    ASSERT_EQ(Attention::refuse(c.problem, isa), "");
    const Attention attention(c.problem, isa);
    attention.run(c.arguments(), &pool);
    ASSERT_EQ(c.difference(attention.uses_bf16()), "");
  }
}

// Runs `chunk` queries per call and returns the bytes of y.
std::vector<std::byte> result_of(AttentionCase& c, Isa isa, int64_t chunk, int64_t split,
                                 ThreadPool* pool) {
  const Attention attention(c.problem, isa);
  c.clear_result();
  AttentionArguments x = c.arguments();
  x.split = split;
  std::vector<int64_t> first(static_cast<size_t>(x.batch));
  for (int64_t begin = 0; begin < c.queries; begin += chunk) {
    AttentionArguments part = x;
    part.queries = std::min(chunk, c.queries - begin);
    for (int64_t b = 0; b < x.batch; ++b) first[static_cast<size_t>(b)] = x.first[b] + begin;
    part.first = first.data();
    const auto move = [&](void* data, ElementType type, int64_t elements) -> void* {
      return static_cast<std::byte*>(data) + bytes_for(type, elements);
    };
    part.q.data = move(x.q.data, c.problem.query, begin * x.q.row);
    part.y.data = move(x.y.data, c.problem.result, begin * x.y.row);
    if (x.bias.data != nullptr) {
      part.bias.data = move(const_cast<void*>(x.bias.data), x.bias.type, begin * x.bias.row);
    }
    attention.run(part, pool);
  }
  return {c.y->data(), c.y->data() + bytes_for(c.y->type(), c.y->count())};
}

void expect_same_bits(AttentionCase& c, Isa isa) {
  ThreadPool one(1), two(2), three(3);
  const auto expected = result_of(c, isa, c.queries, 0, &one);
  const auto same = [&](const std::vector<std::byte>& found) {
    return found.size() == expected.size() &&
           std::memcmp(found.data(), expected.data(), found.size()) == 0;
  };
  EXPECT_TRUE(same(result_of(c, isa, 1, 0, &two))) << "one query per call";
  EXPECT_TRUE(same(result_of(c, isa, 16, 0, &two))) << "16 queries per call";
  EXPECT_TRUE(same(result_of(c, isa, c.queries, 0, &three))) << "three threads";
  for (const int64_t split : {1, 2, 3}) {
    EXPECT_TRUE(same(result_of(c, isa, c.queries, split, &two))) << "split " << split;
  }
  EXPECT_TRUE(same(result_of(c, isa, 1, 2, &three))) << "one query per call, split";
  for (const int shift : {0, 2, 4, 7, 9}) {
    c.lay_out(shift);
    EXPECT_TRUE(same(result_of(c, isa, c.queries, 0, &two))) << "pages of " << (1 << shift);
    EXPECT_TRUE(same(result_of(c, isa, 1, 1, &two))) << "pages of " << (1 << shift);
  }
}

TEST(Attention, TokensHaveTheSameBitsForAnySplit) {
  for (const Isa isa : host_isas()) {
    for (uint32_t seed = 0; seed < static_cast<uint32_t>(cases(4)); ++seed) {
      AttentionCase c(seed, Extent::large);
      SCOPED_TRACE(testing::Message()
                   << to_string(isa) << ", seed " << seed << ", page " << c.page());
      expect_same_bits(c, isa);
    }
  }
}

// Returns the next case from `seed` on with an int8 KV cache and integer GEMMs where supported.
std::unique_ptr<AttentionCase> int8_case(uint32_t& seed, Extent extent) {
  for (;; ++seed) {
    auto c = std::make_unique<AttentionCase>(seed, extent);
    if (c->problem.cache == ElementType::i8 && c->problem.use_bf16) return c;
  }
}

TEST(Attention, TokensOverInt8HaveTheSameBitsForAnySplit) {
  uint32_t seed = 0;
  for (int64_t i = 0; i < cases(4); ++i, ++seed) {
    const auto c = int8_case(seed, Extent::large);
    for (const Isa isa : host_isas()) {
      SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
      expect_same_bits(*c, isa);
    }
  }
}

// Covers every vector position and both the decode and prefill kernels.
TEST(Attention, ANaNValueScaleMakesEveryTokenNaN) {
  uint32_t seed = 0;
  for (int64_t i = 0; i < cases(3); ++i, ++seed) {
    const auto c = int8_case(seed, Extent::large);
    c->problem.causal = false;
    c->problem.left = c->problem.right = -1;
    std::fill(c->length.begin(), c->length.end(), 130);
    c->lay_out(-1);
    AttentionArguments x = c->arguments();
    x.bias = {};
    const int64_t rows = x.batch * c->problem.key_heads;
    const float* const given = x.v.scales;
    for (const int64_t key : {0, 1, 37, 127, 128}) {
      std::vector<float> scales(given, given + x.batch * x.v.scale_batch);
      for (int64_t row = 0; row < rows; ++row) {
        scales[static_cast<size_t>(row * x.v.scale_head + key * x.v.scale_row)] = NAN;
      }
      x.v.scales = scales.data();
      for (const Isa isa : host_isas()) {
        for (const int64_t queries : {int64_t{1}, c->queries}) {
          SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed << ", key " << key
                                          << ", " << queries << " queries");
          c->clear_result();
          x.y.data = c->y->data();
          x.queries = queries;
          Attention(c->problem, isa).run(x, nullptr);
          for (int64_t h = 0; h < c->problem.heads; ++h) {
            const int64_t at = h * x.y.head + (queries - 1) * x.y.row;
            ASSERT_TRUE(std::isnan(c->y->get(at))) << "head " << h;
          }
        }
      }
    }
  }
}

// A non-finite query element, also where keys are masked.
TEST(Attention, ANonFiniteQueryMakesOnlyItsTokenNaN) {
  for (uint32_t seed = 0; seed < static_cast<uint32_t>(cases(40)); ++seed) {
    AttentionCase c(seed, seed % 4 == 0 ? Extent::middle : Extent::small);
    if (c.problem.size < 16) continue;  // with few elements, all scores may be -infinity
    c.problem.left = c.problem.right = -1;
    c.queries = std::min(c.queries, c.keys);
    std::fill(c.length.begin(), c.length.end(), c.keys);
    std::fill(c.first.begin(), c.first.end(), c.keys - c.queries);
    c.lay_out(seed % 3 == 0 ? 4 : -1);
    AttentionArguments x = c.arguments();
    x.bias = {};
    const int64_t odd = c.queries / 2, head = seed % c.problem.heads;
    const double number = seed % 2 == 0 ? NAN : INFINITY;
    for (int64_t d = 0; d < c.problem.size; ++d) {
      const int64_t at = bytes_for(c.problem.query, head * x.q.head + odd * x.q.row + d);
      convert(c.problem.query, static_cast<std::byte*>(x.q.data) + at, ElementType::f64, &number,
              1);
    }
    for (const Isa isa : host_isas()) {
      SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
      c.clear_result();
      x.y.data = c.y->data();
      Attention(c.problem, isa).run(x, nullptr);
      for (int64_t h = 0; h < c.problem.heads; ++h) {
        for (int64_t i = 0; i < c.queries; ++i) {
          for (int64_t d = 0; d < c.problem.value_size; ++d) {
            const double y = c.y->get(h * x.y.head + i * x.y.row + d);
            ASSERT_EQ(std::isnan(y), h == head && i == odd) << "head " << h << " query " << i;
          }
        }
      }
    }
  }
}

// int32 accumulators do not overflow for the largest head sizes.
TEST(Attention, Int8AccumulatorsHoldTheLargestHeads) {
  for (const int64_t size : {64, 511, 512, 513, 600, 1024}) {
    constexpr int64_t kKeys = 3, kMost = 20;
    AttentionProblem p;
    p.size = size;
    p.value_size = 1;
    p.cache = ElementType::i8;
    p.use_bf16 = true;
    p.scale = 1.0 / (128.0 * static_cast<double>(size));
    std::vector<float> q(static_cast<size_t>(kMost * size), 1.0F);
    std::vector<int8_t> k(static_cast<size_t>(kKeys * size), 0), v{10, 20, 30};
    std::fill_n(k.begin(), size, int8_t{-128});
    std::fill_n(k.begin() + size, size, int8_t{127});
    const std::vector<float> scales(kKeys, 1.0F);
    const int64_t first = 0, length = kKeys;
    const double weights[kKeys] = {std::exp(-1.0), std::exp(127.0 / 128), 1};
    const double expected = (10 * weights[0] + 20 * weights[1] + 30 * weights[2]) /
                            (weights[0] + weights[1] + weights[2]);
    for (const Isa isa : host_isas()) {
      for (const int64_t queries : {int64_t{1}, kMost}) {
        std::vector<float> y(static_cast<size_t>(queries), 0.0F);
        AttentionArguments x;
        x.batch = 1;
        x.queries = queries;
        x.q = {q.data(), 0, 0, size};
        x.y = {y.data(), 0, 0, 1};
        x.k = {k.data(), 0, 0, size};
        x.v = {v.data(), 0, 0, 1};
        x.k.scales = x.v.scales = scales.data();
        x.k.scale_row = x.v.scale_row = 1;
        x.first = &first;
        x.length = &length;
        Attention(p, isa).run(x, nullptr);
        for (const float found : y) {
          EXPECT_NEAR(found, expected, 30 * 0x1p-8) << to_string(isa) << ", heads of " << size;
        }
      }
    }
  }
}

TEST(Attention, TokensWithoutKeysAreZero) {
  for (const Isa isa : host_isas()) {
    AttentionCase c(3, Extent::middle);
    c.problem.causal = true;
    std::fill(c.first.begin(), c.first.end(), -c.queries);
    Attention(c.problem, isa).run(c.arguments(), nullptr);
    ASSERT_EQ(c.difference(false), "");
    c.clear_result();
    std::fill(c.length.begin(), c.length.end(), 0);
    Attention(c.problem, isa).run(c.arguments(), nullptr);
    ASSERT_EQ(c.difference(false), "");
  }
}

TEST(Attention, RefusalsNameTheReason) {
  AttentionProblem p;
  p.size = p.value_size = 64;
  p.heads = 6;
  p.key_heads = 4;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2), "6 heads are not a multiple of 4 KV heads");
  p.key_heads = 3;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2), "");
  p.cache = ElementType::i4;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2), "KV cache of i4, supported: f32, bf16, f16, i8");
}

}  // namespace
}  // namespace lathe::cpu::test
