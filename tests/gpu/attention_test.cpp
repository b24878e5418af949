// SPDX-License-Identifier: MIT
// Attention of 16-bit floats in tiles of fragments, beside ref: sizes that fill no tile, shared
// heads, masks. Orders of threads and widths of waves produce the same bits.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/ops.h"
#include "tensor/convert.h"
#include "tests/support/gpu_beside_ref.h"

namespace lathe::test {
namespace {

struct Case {
  int64_t heads;
  int64_t key_heads;
  int64_t queries;
  int64_t keys;
  int64_t columns;
  int64_t value_columns;
  bool causal = false;
  int mask = 0;  // 1: boolean, 2: added; 3, 4: likewise, the same for all queries
  ElementType type = ElementType::f16;
  double softcap = 0;
  int64_t batches = 2;
};

std::unique_ptr<Program> program_of(const Case& c) {
  auto made = std::make_unique<Program>();
  Module& main = made->main();
  const auto add = [&](const char* name, ElementType type, std::vector<Dim> dims) {
    return main.add_parameter(Type::tensor(type, std::move(dims)), name);
  };
  std::vector<Value*> operands{add("q", c.type, {c.batches, c.heads, c.queries, c.columns}),
                               add("k", c.type, {c.batches, c.key_heads, c.keys, c.columns}),
                               add("v", c.type, {c.batches, c.key_heads, c.keys, c.value_columns})};
  if (c.mask != 0) {
    operands.push_back(add("mask", c.mask % 2 == 1 ? ElementType::boolean : c.type,
                           {c.batches, 1, c.mask > 2 ? 1 : c.queries, c.keys}));
  }
  Builder builder(main);
  Instruction* attention = builder.add(ops::attention, operands,
                                       {{"is_causal", c.causal}, {"softcap", c.softcap}}, {}, 1);
  main.set_results({attention->result()}, {"y"});
  return made;
}

Tensor random(const Type& type, uint32_t& state) {
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
  Tensor tensor(type.element, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float x = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) * 2 - 1;
    if (type.element == ElementType::boolean) {
      tensor.as<bool>()[i] = x > -0.5F;
    } else {
      store_double(type.element, tensor.data(), i, x);
    }
  }
  return tensor;
}

TEST(GpuAttention, FragmentsAgreeWithRef) {
  const std::vector<Case> cases{
      {2, 2, 3, 5, 16, 16},
      {2, 1, 70, 130, 64, 64, true},
      {4, 2, 17, 65, 24, 40, false, 1},
      {2, 2, 64, 64, 128, 128, false, 2},
      {3, 3, 1, 200, 80, 7},
      {2, 2, 33, 70, 64, 64, true, 2, ElementType::bf16},
      {2, 1, 40, 40, 48, 48, true, 0, ElementType::f16, 0.5},
      {2, 2, 33, 150, 64, 64, false, 3},
      {2, 1, 18, 64, 64, 32, true, 4},
      // Few blocks: waves share queries.
      {2, 1, 17, 150, 64, 64, true, 0, ElementType::f16, 0, 1},
      {1, 1, 40, 70, 128, 128, false, 2, ElementType::bf16, 0, 1},
      {2, 2, 33, 300, 64, 32, false, 3, ElementType::f16, 0, 1},
      {1, 1, 5, 40, 24, 7, false, 1, ElementType::f16, 0.5, 1},
  };
  uint32_t state = 7;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& c = cases[i];
    const auto inputs = [&](const Module& main) {
      std::vector<Box> made;
      for (const auto& parameter : main.parameters()) {
        made.push_back(Box{random(parameter->type(), state)});
      }
      return made;
    };
    expect_beside_ref([&] { return program_of(c); }, inputs, c.type);
  }
}

}  // namespace
}  // namespace lathe::test
