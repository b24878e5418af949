// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "tests/kernels/support/attention_case.h"
#include "tests/kernels/support/cases.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu::test {
namespace {

TEST(Attention, agrees_with_a_plain_loop_over_random_problems) {
  ThreadPool pool(2);
  for (int64_t seed = 0; seed < cases(kUsualCases); ++seed) {
    AttentionCase c(static_cast<uint32_t>(seed), seed % 19 == 0 ? Extent::middle : Extent::small);
    const Isa isa = turn_of(seed);
    SCOPED_TRACE(testing::Message() << to_string(isa) << ", seed " << seed);
    ASSERT_EQ(Attention::refuse(c.problem, isa), "");
    const Attention attention(c.problem, isa);
    attention.run(c.arguments(), &pool);
    ASSERT_EQ(c.difference(attention.bf16_products()), "");
  }
}

// The result's bytes for one way to run a case.
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

TEST(Attention, gives_a_row_the_same_bits_however_the_work_is_cut) {
  ThreadPool one(1), two(2), three(3);
  for (const Isa isa : host_isas()) {
    for (uint32_t seed = 0; seed < static_cast<uint32_t>(cases(4)); ++seed) {
      AttentionCase c(seed, Extent::large);
      SCOPED_TRACE(testing::Message()
                   << to_string(isa) << ", seed " << seed << ", page " << c.page());
      const auto expected = result_of(c, isa, c.queries, 0, &one);
      const auto same = [&](const std::vector<std::byte>& found) {
        return found.size() == expected.size() &&
               std::memcmp(found.data(), expected.data(), found.size()) == 0;
      };
      EXPECT_TRUE(same(result_of(c, isa, 1, 0, &two))) << "rows one by one";
      EXPECT_TRUE(same(result_of(c, isa, 16, 0, &two))) << "16 rows at a time";
      EXPECT_TRUE(same(result_of(c, isa, c.queries, 0, &three))) << "three threads";
      for (const int64_t split : {1, 2, 3}) {
        EXPECT_TRUE(same(result_of(c, isa, c.queries, split, &two))) << "split " << split;
      }
      EXPECT_TRUE(same(result_of(c, isa, 1, 2, &three))) << "rows one by one, split";
      for (const int shift : {0, 2, 4, 7, 9}) {
        c.lay_out(shift);
        EXPECT_TRUE(same(result_of(c, isa, c.queries, 0, &two))) << "pages of " << (1 << shift);
        EXPECT_TRUE(same(result_of(c, isa, 1, 1, &two))) << "pages of " << (1 << shift);
      }
    }
  }
}

TEST(Attention, gives_zeros_to_rows_without_keys) {
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

TEST(Attention, says_why_it_refuses) {
  AttentionProblem p;
  p.size = p.value_size = 64;
  p.heads = 6;
  p.key_heads = 4;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2), "6 heads are not a multiple of 4 key heads");
  p.key_heads = 3;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2), "");
  p.cache = ElementType::i4;
  EXPECT_EQ(Attention::refuse(p, Isa::avx2),
            "a cache of i4, these kernels take f32, bf16, f16 and i8");
}

}  // namespace
}  // namespace lathe::cpu::test
