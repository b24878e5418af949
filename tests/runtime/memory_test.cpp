// SPDX-License-Identifier: MIT
// Scratch memory of frames: in-place results, copies of views, found shapes, arenas that stay.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ir/parse.h"
#include "plan/arena_layout.h"
#include "runtime/arena.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

std::shared_ptr<const Plan> plan_of(const std::string& body, const std::string& symbols = "",
                                    std::string_view target = "ref") {
  auto program = parse_program("program \"memory\" stage fused {\n" + symbols + "  module @main" +
                               body + "\n}");
  return compile(std::move(program), {.target = find_target(target)});
}

Tensor floats(Dims dims, float first = 0) {
  Tensor tensor(ElementType::f32, std::move(dims));
  std::iota(tensor.as<float>(), tensor.as<float>() + tensor.count(), first);
  return tensor;
}

std::vector<float> values(const Box& box) {
  const Tensor dense = box.tensor().dense();
  return {dense.as<float>(), dense.as<float>() + dense.count()};
}

constexpr int64_t kBytes = 1000 * 4;

TEST(Memory, AChainOfElementwiseOpsNeedsOneBuffer) {
  for (const std::string_view target : {"ref", "auto", "sim"}) {
    const auto plan = plan_of(R"((%x: f32[1000]) {
      %a = neg(%x)
      %b = exp(%a)
      %c = relu(%b)
      %d = neg(%c)
      %e = abs(%d)
      %f = neg(%e)
      return %f as "f"
    })",
                              "", target);
    Session session(plan);
    const Box x{floats({1000})};
    const std::vector<float> f = values(session.run(std::vector{x})[0]);
    for (size_t i = 0; i < f.size(); ++i) {
      ASSERT_NEAR(f[i], -std::exp(-static_cast<float>(i)), 1e-6F) << target;
    }
    if (target != "sim") EXPECT_LE(session.memory().peak(), 2 * kBytes + 256) << target;
  }
}

TEST(Memory, AnOperandThatIsReadLaterIsNotOverwritten) {
  for (const std::string_view target : {"ref", "auto", "sim", "sim:mixed"}) {
    const auto plan = plan_of(R"((%x: f32[4]) {
      %a = neg(%x)
      %s = literal i64[2] {2, 2}
      %v = reshape(%a, %s)
      %b = neg(%a)
      %c = neg(%b)
      %d = mul(%c, %c)
      %e = add(%d, %a)
      %w = transpose(%v) {permutation = [1, 0]}
      return %e as "e", %w as "w"
    })",
                              "", target);
    Session session(plan);
    for (int i = 0; i < 3; ++i) {
      const std::vector<Box> results = session.run(std::vector{Box{floats({4}, 1)}});
      EXPECT_EQ(values(results[0]), (std::vector<float>{0, 2, 6, 12})) << target;
      EXPECT_EQ(values(results[1]), (std::vector<float>{-1, -3, -2, -4})) << target;
    }
  }
}

TEST(Memory, CopiesOfViewsShareTheArena) {
  // No view of a transposed matrix has another shape: each reshape copies.
  const auto plan = plan_of(R"((%x: f32[20, 50]) {
      %s = literal i64[2] {50, 20}
      %r = literal i64[2] {20, 50}
      %a = neg(%x)
      %t = transpose(%a) {permutation = [1, 0]}
      %b = reshape(%t, %r)
      %u = transpose(%b) {permutation = [1, 0]}
      %c = reshape(%u, %r)
      %v = transpose(%c) {permutation = [1, 0]}
      %d = reshape(%v, %r)
      %w = transpose(%d) {permutation = [1, 0]}
      %e = reshape(%w, %r)
      %y = neg(%e)
      return %y as "y"
    })");
  Session session(plan);
  session.run(std::vector{Box{floats({20, 50})}});
  EXPECT_LE(session.memory().peak(), 3 * kBytes + 512);
}

TEST(Memory, FoundShapesReuseMemoryFromSegmentToSegment) {
  std::string body = "(%x: f32[65536]) {\n";
  std::string symbols;
  std::string from = "x";
  for (int i = 0; i < 8; ++i) {
    symbols += "  symbol n" + std::to_string(i) + " found 0..65536\n";
    const std::string n = std::to_string(i);
    body += "    %a" + n + " = relu(%" + from + ")\n    %b" + n + " = neg(%a" + n + ")\n    %c" +
            n + " = relu(%b" + n + ")\n    %d" + n + " = cast(%b" + n + ") {to = bool}\n    %e" +
            n + " = nonzero(%d" + n + ") found n" + n + "\n    %k" + n + " = size(%e" + n + ")\n";
  }
  body += "    return %k0 as \"first\", %k7 as \"last\"\n  }";
  Session session(plan_of(body, symbols));
  const std::vector<Box> results = session.run(std::vector{Box{floats({65536}, -9)}});
  EXPECT_EQ(*results[0].tensor().as<int64_t>(), 65526);
  EXPECT_EQ(*results[1].tensor().as<int64_t>(), 65526);
  EXPECT_LE(session.memory().peak(), (24 << 20) / 16);  // 24 MB for 2^20 floats
}

TEST(Memory, LayoutsKeepFixedItems) {
  const std::array<LayoutItem, 3> items{{{100, 0, 1}, {300, 1, 2}, {50, 3, 4}}};
  const std::array<FixedItem, 2> fixed{{{0, 64}, {256, 128}}};
  const Layout layout = place(items, fixed);
  for (size_t i = 0; i < items.size(); ++i) {
    for (const FixedItem& item : fixed) {
      const bool apart = layout.offsets[i] + items[i].bytes <= item.offset ||
                         item.offset + item.bytes <= layout.offsets[i];
      EXPECT_TRUE(apart) << "item " << i << " at " << layout.offsets[i];
    }
  }
  EXPECT_EQ(layout.offsets[0], 64);
  EXPECT_EQ(layout.offsets[1], 384);
  EXPECT_EQ(layout.offsets[2], 64);
}

TEST(Memory, AnArenaGrowsWithoutMovingWhatIsInUse) {
  MemoryBudget budget(host_allocator());
  BorrowedMemory memory(host_allocator());
  ASSERT_TRUE(memory.lend(budget));
  {
    Arena arena(&host_device(), memory, 3);
    const std::array<LayoutItem, 1> small{{{1 << 10, 0, 9}}};
    arena.restart(0);
    char* first = arena.place(0, place(small), small);
    first[5] = 42;
    const std::array<LayoutItem, 1> large{{{32 << 20, 3, 4}}};
    ASSERT_EQ(arena.fixed(1, 3).size(), 1);
    const Layout around = place(large, arena.fixed(1, 3));
    EXPECT_EQ(arena.place(1, around, large), first);
    EXPECT_TRUE(arena.stays());
    EXPECT_EQ(around.offsets[0], 1 << 10);
    // Beyond the reserved addresses: earlier segments keep theirs until the next run.
    const std::array<LayoutItem, 1> huge{{{int64_t{256} << 20, 5, 6}}};
    char* third = arena.place(2, place(huge), huge);
    EXPECT_NE(third, first);
    EXPECT_EQ(first[5], 42);
    EXPECT_FALSE(arena.stays());
    arena.restart(0);
    EXPECT_TRUE(arena.stays());
    EXPECT_EQ(arena.place(0, place(small), small), third);
    EXPECT_EQ(budget.used(), int64_t{256} << 20);
  }
  memory.take_back();
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace lathe
