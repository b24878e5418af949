// SPDX-License-Identifier: MIT
// f32 GEMMs with B held in 16 bits: the bits of the GEMM with the widened B.
#include "targets/cpu/kernels/gemm/half_panels.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "targets/cpu/kernels/gemm/matmul.h"
#include "tensor/float_formats.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

struct Packed {
  explicit Packed(int64_t bytes) : lines(static_cast<size_t>((bytes + 63) / 64)) {}
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines;
};

struct Case {
  Isa isa;
  ElementType type;
  int64_t m, n, k;
  bool transposed;  // B is stored as [n, k]
};

std::vector<float> floats(int64_t count, uint32_t seed) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) {
    seed = seed * 1664525 + 1013904223;
    x = static_cast<float>(static_cast<int32_t>(seed >> 8) - (1 << 23)) / (1 << 22);
  }
  return out;
}

std::vector<float> product(const Case& c, const std::vector<float>& a, const PackSource& b,
                           bool half, ThreadPool* pool) {
  const BrgemmKernel& kernel = brgemm_kernel(c.isa, GemmType::f32);
  const PackedLayout layout =
      half ? half_panels_layout(kernel, c.k, c.n) : packed_layout(kernel, GemmType::f32, c.k, c.n);
  Packed packed(layout.bytes);
  if (half) {
    pack_half_panels(kernel, b, 0, layout.panels, packed.lines.data(), pool);
  } else {
    pack_b(kernel, GemmType::f32, b, packed.lines.data(), pool);
  }
  std::vector<float> out(static_cast<size_t>(c.m * c.n), 7.0F);
  const std::vector<float> bias = floats(c.n, 5);
  const std::array<EpilogueStep, 1> steps = [&] {
    EpilogueStep step;
    step.kind = EpilogueStep::Kind::add;
    step.operand.data = bias.data();
    step.operand.type = ElementType::f32;
    step.operand.scale = 1;
    step.operand.column_stride = 1;
    return std::array{step};
  }();
  MatmulCall call;
  call.isa = c.isa;
  call.m = c.m;
  call.n = c.n;
  call.k = c.k;
  call.a = a.data();
  call.a_row_stride = c.k;
  call.b = packed.lines.data();
  if (half) call.b_type = c.type;
  call.out = out.data();
  call.out_row_stride = c.n;
  if (c.transposed) call.epilogue.steps = steps;
  matmul(call, pool);
  return out;
}

void check_case(const Case& c) {
  SCOPED_TRACE(fmt::format("{} {} m {} n {} k {} {}", to_string(c.isa), to_string(c.type), c.m, c.n,
                           c.k, c.transposed));
  const std::vector<float> a = floats(c.m * c.k, 1);
  std::vector<uint16_t> b;
  for (const float x : floats(c.n * c.k, 2)) {
    b.push_back(c.type == ElementType::bf16 ? float_to_bf16(x) : float_to_half(x));
  }
  PackSource source{b.data(), c.type, c.k, c.n, c.n, 1};
  if (c.transposed) source = {b.data(), c.type, c.k, c.n, 1, c.k};
  static ThreadPool pool(3);
  const std::vector<float> expected = product(c, a, source, false, nullptr);
  EXPECT_EQ(product(c, a, source, true, nullptr), expected);
  EXPECT_EQ(product(c, a, source, true, &pool), expected);
}

TEST(HalfPanels, HaveTheBitsOfTheWidenedMatrix) {
  for (const Isa isa : test::host_isas()) {
    for (const int64_t m : {1, 3, 4, 8, 9, 33, 300}) {
      for (const bool transposed : {false, true}) {
        const ElementType type = transposed ? ElementType::bf16 : ElementType::f16;
        check_case({isa, type, m, 7, 5, transposed});
        check_case({isa, type, m, 200, 65, transposed});
        check_case({isa, type, m, 581, 40, transposed});
        check_case({isa, type, m, 929, 131, transposed});
      }
    }
  }
}

TEST(HalfPanels, AreUnpacked) {
  for (const Isa isa : test::host_isas()) {
    const BrgemmKernel& kernel = brgemm_kernel(isa, GemmType::f32);
    constexpr int64_t kDepth = 70;
    for (const int64_t n : {5, 190, 576, 960, 1111}) {
      std::vector<uint16_t> b(static_cast<size_t>(n * kDepth)), found(b.size());
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint16_t>(i);
      const PackedLayout layout = half_panels_layout(kernel, kDepth, n);
      Packed packed(layout.bytes);
      const PackSource source{b.data(), ElementType::bf16, kDepth, n, n, 1};
      // As large matrices are: some panels, then the others.
      const int64_t some = (layout.panels + 2) / 3;
      pack_half_panels(kernel, source, some, layout.panels - some, packed.lines.data(), nullptr);
      pack_half_panels(kernel, source, 0, some, packed.lines.data(), nullptr);
      unpack_half_panels(kernel, kDepth, n, true, packed.lines.data(), found.data());
      EXPECT_EQ(found, b) << to_string(isa) << ", " << n << " columns";
      std::vector<uint16_t> column(kDepth);
      for (int64_t c = 0; c < n; ++c) {
        read_column(column_of_half_panels(kernel, layout, packed.lines.data(), c), 2 * kDepth,
                    column.data());
        for (int64_t i = 0; i < kDepth; ++i) {
          ASSERT_EQ(column[static_cast<size_t>(i)], b[static_cast<size_t>(i * n + c)])
              << to_string(isa) << ", element " << i << " of column " << c << " of " << n;
        }
      }
    }
  }
}

TEST(HalfPanels, OfSeveralMatricesAreThoseOfOne) {
  for (const Isa isa : test::host_isas()) {
    const BrgemmKernel& kernel = brgemm_kernel(isa, GemmType::f32);
    constexpr int64_t kDepth = 70;
    for (const auto& [left, right] : {std::pair{64, 128}, {576, 192}, {320, 1472}}) {
      const int64_t n = left + right;
      std::vector<uint16_t> b(static_cast<size_t>(n * kDepth));
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint16_t>(i * 7);
      const PackedLayout layout = half_panels_layout(kernel, kDepth, n);
      Packed whole(layout.bytes), parts(layout.bytes);
      const auto columns = [&](int64_t first, int64_t count) {
        return PackSource{b.data() + first * kDepth, ElementType::bf16, kDepth, count, 1, kDepth};
      };
      pack_half_panels(kernel, columns(0, n), 0, layout.panels, whole.lines.data(), nullptr);
      const int64_t first = panel_count(kernel, left);
      pack_half_panels(kernel, columns(0, left), 0, first, parts.lines.data(), nullptr,
                       {0, layout.panels});
      pack_half_panels(kernel, columns(left, right), 0, panel_count(kernel, right),
                       parts.lines.data(), nullptr, {first, layout.panels});
      EXPECT_EQ(
          std::memcmp(whole.lines.data(), parts.lines.data(), static_cast<size_t>(layout.bytes)), 0)
          << to_string(isa) << ", " << n << " columns";
    }
  }
}

TEST(HalfPanels, OfEarlierFilesAreUnpacked) {
  const BrgemmKernel& kernel = brgemm_kernel(test::host_isas().front(), GemmType::f32);
  const int64_t width = kernel.panel_columns, n = 3 * width + 1;
  constexpr int64_t kDepth = 6;
  std::vector<uint16_t> packed(static_cast<size_t>(4 * width * kDepth)), found(kDepth * n);
  for (int64_t k = 0; k < kDepth; ++k) {
    for (int64_t c = 0; c < n; ++c) {
      packed[static_cast<size_t>((c / width * kDepth + k) * width + c % width)] =
          static_cast<uint16_t>(k * n + c);
    }
  }
  unpack_half_panels(kernel, kDepth, n, false, packed.data(), found.data());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i);
}

TEST(HalfPanels, GroupsCoverAllPanels) {
  for (int64_t panels = 1; panels < 200; ++panels) {
    const HalfGroups groups(panels);
    EXPECT_EQ(groups.first(0), 0);
    EXPECT_EQ(groups.first(groups.count), panels);
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t group = groups.group_of(panel);
      EXPECT_LE(groups.first(group), panel);
      EXPECT_GT(groups.first(group + 1), panel);
      EXPECT_LE(groups.first(group + 1) - groups.first(group), kMaxGroupPanels);
    }
  }
}

TEST(HalfPanels, SplitADeepK) {
  for (const Isa isa : test::host_isas()) {
    for (const int64_t m : {1, 9}) check_case({isa, ElementType::bf16, m, 40, 4100, true});
  }
}

}  // namespace
}  // namespace lathe::cpu
