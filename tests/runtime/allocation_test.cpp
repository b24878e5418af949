// SPDX-License-Identifier: MIT
// Runs allocate nothing from the third on: this program counts every malloc during a run.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/allocations.h"
#include "tests/support/random_inputs.h"

namespace lathe::test {
namespace {

struct Case {
  const char* name;
  const char* text;
};

// The mask of an encoder as exporters write it.
constexpr const char* kMask = R"(program "mask" stage imported {
  symbol b bound 1..*
  symbol n bound 1..*
  module @main(%mask: i64[b, n], %ids: i64[b, n], %table: f32[16, 8], %places: i64[b, 16]) {
    %zero = literal i64[] {0}
    %one = literal i64[] {1}
    %shape = shape(%mask)
    %index0 = literal i64[] {0}
    %index1 = literal i64[] {1}
    %batch = gather(%shape, %index0) {axis = 0}
    %length = gather(%shape, %index1) {axis = 0}
    %rows = range(%zero, %batch, %one)
    %columns = range(%zero, %length, %one)
    %last = literal i64[1] {-1}
    %rows_1 = unsqueeze(%rows, %last)
    %rows_2 = expand(%rows_1, %shape)
    %columns_2 = expand(%columns, %shape)
    %rows_3 = unsqueeze(%rows_2, %last)
    %columns_3 = unsqueeze(%columns_2, %last)
    %coordinates = concat(%rows_3, %columns_3) {axis = -1}
    %seen = cast(%mask) {to = bool}
    %kept = gather_nd(%seen, %coordinates)
    %hidden = literal f32[] {-1000}
    %none = literal f32[] {0}
    %bias = where(%kept, %none, %hidden)
    %limit = literal i64[] {3}
    %known = min(%ids, %limit)
    %positive = max(%known, %zero)
    %place = gather_elements(%places, %positive) {axis = 1}
    %bounded = min(%place, %limit)
    %index = max(%bounded, %zero)
    %rows_of_table = gather(%table, %index) {axis = 0}
    return %bias as "bias", %rows_of_table as "rows"
  }
})";

constexpr const char* kBlock = R"(program "block" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[1, n, 8], %w: f32[8, 16], %v: f32[16, 8], %scale: f32[8], %bias: f32[8]) {
    %normal, %mean, %deviation = layer_normalization(%x, %scale, %bias) {axis = -1}
    %wide = matmul(%normal, %w)
    %active = gelu(%wide)
    %narrow = matmul(%active, %v)
    %y = add(%x, %narrow)
    %turned = transpose(%y) {permutation = [0, 2, 1]}
    %scores = matmul(%y, %turned)
    %weights = softmax(%scores) {axis = -1}
    %mixed = matmul(%weights, %y)
    %twice = concat(%mixed, %y) {axis = -1}
    return %twice as "twice"
  }
})";

constexpr const char* kImage = R"(program "image" stage imported {
  module @main(%x: f32[1, 3, 12, 12]) {
    %weight = literal f32[] {0.25}
    %w_shape = literal i64[4] {8, 3, 3, 3}
    %w = expand(%weight, %w_shape)
    %d_shape = literal i64[4] {8, 1, 3, 3}
    %d = expand(%weight, %d_shape)
    %p_shape = literal i64[4] {8, 8, 1, 1}
    %p = expand(%weight, %p_shape)
    %a = conv(%x, %w) {pads = [1, 1, 1, 1], strides = [2, 2]}
    %b = relu(%a)
    %c = conv(%b, %d) {group = 8, pads = [1, 1, 1, 1]}
    %e = hard_swish(%c)
    %f = conv(%e, %p)
    %g = add(%b, %f)
    %h = global_average_pool(%g)
    return %h as "h"
  }
})";

constexpr Case kCases[] = {{"mask", kMask}, {"block", kBlock}, {"image", kImage}};

class RunAllocations : public testing::TestWithParam<Case> {};

TEST_P(RunAllocations, AreNoneFromTheThirdRunOn) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizers' allocator is not counted";
  const std::shared_ptr<const Target> cpu = find_target("cpu");
  if (cpu == nullptr) GTEST_SKIP() << "target 'cpu' is unavailable";
  const auto plan = compile(parse_program(GetParam().text), {.target = cpu});
  Session session(plan);
  std::mt19937_64 random(7);
  const std::vector<Box> inputs = random_inputs(*plan->program, {{"b", 2}, {"n", 5}}, random);
  std::vector<Box> results(plan->program->main().results().size());
  EXPECT_GT(allocations_of([&] { session.run(inputs, results, {}); }), 0);
  session.run(inputs, results, {});
  for (int run = 3; run < 6; ++run) {
    EXPECT_EQ(allocations_of([&] { session.run(inputs, results, {}); }), 0) << "run " << run;
  }
  // Nor do those that a profiler times.
  Profiler profiler;
  RunOptions profiled;
  profiled.profiler = &profiler;
  session.run(inputs, results, profiled);
  const size_t launches = profiler.events().size();
  EXPECT_GT(launches, 0U);
  profiler.clear();
  EXPECT_EQ(allocations_of([&] { session.run(inputs, results, profiled); }), 0);
  EXPECT_EQ(profiler.events().size(), launches);
}

INSTANTIATE_TEST_SUITE_P(Programs, RunAllocations, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lathe::test
