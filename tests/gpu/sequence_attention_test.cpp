// SPDX-License-Identifier: MIT
// Attention over pages in 16 bits, beside ref: prompts in tiles of fragments that several sequences
// share, single tokens whose positions several blocks share. Orders of threads and widths of waves
// produce the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/parse.h"
#include "tensor/convert.h"
#include "tests/support/gpu_beside_ref.h"

namespace lathe::test {
namespace {

struct Case {
  int32_t heads;
  int32_t key_heads;
  int32_t columns;
  std::vector<int32_t> tokens;  // of each sequence
  std::vector<int32_t> past;
  std::string attributes;
  ElementType type = ElementType::f16;
  int32_t rotated = 0;  // columns of a head
};
constexpr int32_t kPage = 16;

int32_t sum_of(const std::vector<int32_t>& values) {
  int32_t sum = 0;
  for (const int32_t value : values) sum += value;
  return sum;
}

int32_t pages_of(const Case& c) {
  int32_t most = 0;
  for (size_t i = 0; i < c.past.size(); ++i) {
    most = std::max(most, (c.past[i] + c.tokens[i] + kPage - 1) / kPage);
  }
  return most;
}

std::unique_ptr<Program> program_of(const Case& c) {
  const auto sequences = static_cast<int32_t>(c.past.size());
  // A row for each position.
  const int32_t positions = pages_of(c) * kPage;
  const std::string angles = c.rotated == 0
                                 ? ""
                                 : fmt::format(", %cos: {0}[{1}, {2}], %sin: {0}[{1}, {2}]",
                                               to_string(c.type), positions, c.rotated / 2);
  return parse_program(fmt::format(
      "program \"attention\" stage imported {{\n  module @main(%q: {0}[1, {1}, {2}], "
      "%k: {0}[1, {1}, {3}], %v: {0}[1, {1}, {3}], %ck: {0}[{4}, {5}, {6}, {7}], "
      "%cv: {0}[{4}, {5}, {6}, {7}], %bounds: i32[{8}], %past: i32[{9}], %table: i32[{9}, "
      "{10}]{13}) "
      "{{\n    %y, %k1, %v1 = sequence_attention(%q, %k, %v, %ck, %cv, %bounds, %past, %table{14}) "
      "{{num_heads = {11}, kv_num_heads = {5}{12}}}\n    return %y as \"y\"\n  }}\n}}",
      to_string(c.type), sum_of(c.tokens), c.heads * c.columns, c.key_heads * c.columns,
      sequences * pages_of(c), c.key_heads, kPage, c.columns, sequences + 1, sequences, pages_of(c),
      c.heads, c.attributes + (c.rotated == 0 ? "" : ", do_rotary = true"), angles,
      c.rotated == 0 ? "" : ", %cos, %sin"));
}

Tensor random(const Type& type, uint32_t& state) {
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
  Tensor tensor(type.element, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    store_double(type.element, tensor.data(), i,
                 static_cast<double>(state >> 8) / (1 << 24) * 2 - 1);
  }
  return tensor;
}

Box integers(Dims dims, const std::vector<int32_t>& values) {
  Tensor tensor(ElementType::i32, std::move(dims));
  std::ranges::copy(values, tensor.as<int32_t>());
  return Box{tensor};
}

std::vector<Box> inputs_of(const Case& c, const Module& main, uint32_t& state) {
  std::vector<Box> inputs;
  for (size_t i = 0; i < 5; ++i) {
    inputs.push_back(Box{random(main.parameters()[i]->type(), state)});
  }
  const auto sequences = static_cast<int64_t>(c.past.size());
  std::vector<int32_t> bounds{0};
  for (const int32_t count : c.tokens) bounds.push_back(bounds.back() + count);
  // Pages of a sequence lie backwards, between those of others.
  std::vector<int32_t> table;
  const int32_t pages = pages_of(c);
  for (int32_t i = 0; i < sequences; ++i) {
    for (int32_t page = 0; page < pages; ++page) {
      table.push_back((pages - 1 - page) * static_cast<int32_t>(sequences) + i);
    }
  }
  inputs.push_back(integers({sequences + 1}, bounds));
  inputs.push_back(integers({sequences}, c.past));
  inputs.push_back(integers({sequences, pages}, table));
  for (size_t i = inputs.size(); i < main.parameters().size(); ++i) {
    inputs.push_back(Box{random(main.parameters()[i]->type(), state)});
  }
  return inputs;
}

void expect_as_ref(const std::vector<Case>& cases) {
  uint32_t state = 7;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& c = cases[i];
    expect_beside_ref([&] { return program_of(c); },
                      [&](const Module& main) { return inputs_of(c, main, state); }, c.type);
  }
}

TEST(GpuSequenceAttention, PromptsAgreeWithRef) {
  expect_as_ref({
      {2, 1, 16, {70}, {0}, ""},
      {2, 2, 24, {33, 5, 40}, {3, 100, 0}, ""},
      {1, 1, 40, {0, 64, 1}, {5, 70, 2}, ", local_window_size = 20"},
      {2, 1, 64, {35}, {60}, ", softcap = 2.0, smooth_softmax = true", ElementType::bf16},
  });
}

TEST(GpuSequenceAttention, TokensAgreeWithRef) {
  expect_as_ref({
      {4, 1, 128, {1}, {300}, ""},
      {4, 2, 64, {1, 1, 1}, {0, 63, 200}, ", local_window_size = 90"},
      {3, 1, 20, {1}, {130}, ", smooth_softmax = true"},
      {6, 1, 136, {1}, {70}, "", ElementType::bf16},
      {2, 2, 7, {3, 2}, {1, 65}, ""},
  });
}

// Several tiles of a block, tokens of a sequence that is new in a block or not, rotated keys.
TEST(GpuSequenceAttention, SplitTokensAgreeWithRef) {
  expect_as_ref({
      {8, 1, 16, {1}, {1100}, "", ElementType::bf16},
      {4, 1, 128, {1}, {250}, "", ElementType::f16, 128},
      {2, 1, 32, {1}, {700}, ", local_window_size = 580, softcap = 3.0", ElementType::f16, 16},
      {6, 2, 24, {1}, {130}, ", smooth_softmax = true", ElementType::f16, 24},
      {4, 1, 16, {1}, {90}, ", slopes = [0.5, 0.25, 0.125, 0.0625]"},
      {4, 1, 128, {2}, {63}, "", ElementType::bf16, 64},
      {2, 1, 8, {0, 2}, {9, 1}, "", ElementType::f16, 8},
  });
}

TEST(GpuSequenceAttention, TokensOfManySequencesAgreeWithRef) {
  expect_as_ref({
      {8, 2, 128, {1, 1, 1, 1, 1}, {0, 17, 63, 300, 130}, ""},
      {4, 1, 128, {1, 1, 1, 1}, {0, 300, 35, 90}, ", local_window_size = 70", ElementType::bf16},
      {3, 1, 24, {1, 1, 1, 1, 1}, {5, 70, 2, 16, 31}, ", smooth_softmax = true, softcap = 3.0"},
      {2, 2, 16, {2, 1, 1}, {1, 65, 20}, ""},
      {4, 2, 32, {1, 1, 1}, {40, 3, 77}, ", slopes = [0.5, 0.25, 0.125, 0.0625]"},
  });
}

// Lengths that lie on the device are known there alone.
TEST(GpuSequenceAttention, LengthsBeyondTheCacheAreRefused) {
  constexpr const char* kText = R"(
program "cached" stage imported {
  module @main(%q: f32[2, 1, 8], %k: f32[2, 1, 8], %v: f32[2, 1, 8], %ck: f32[2, 1, 4, 8],
      %cv: f32[2, 1, 4, 8], %last: i32[2]) {
    %total = literal i32[1] {4}
    %y, %k1, %v1, %s = group_query_attention(%q, %k, %v, %ck, %cv, %last, %total)
        {num_heads = 1, kv_num_heads = 1}
    return %y as "y"
  }
})";
  std::vector<Box> inputs;
  uint32_t state = 7;
  const std::unique_ptr<Program> program = parse_program(kText);
  for (size_t i = 0; i < 5; ++i) {
    inputs.push_back(Box{random(program->main().parameters()[i]->type(), state)});
  }
  inputs.push_back(integers({2}, {1, 3}));
  Session reference(compile(parse_program(kText), {.target = find_target("ref")}));
  const Tensor expected = reference.run(inputs)[0].tensor();
  for (const auto& target : gpu_host_targets()) {
    Session session(compile(parse_program(kText), {.target = target}));
    for (const int32_t last : {4, 1 << 30, 3}) {
      inputs[5] = integers({2}, {1, last});
      try {
        const Tensor found = session.run(inputs)[0].tensor();
        EXPECT_EQ(last, 3);
        for (int64_t i = 0; i < expected.count(); ++i) {
          ASSERT_NEAR(found.elements<float>()[static_cast<size_t>(i)],
                      expected.elements<float>()[static_cast<size_t>(i)], 1e-4);
        }
      } catch (const Error& error) {
        EXPECT_NE(last, 3);
        EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
        EXPECT_TRUE(
            error.message().ends_with(": seqlens_k implies more keys than a cache has room for"))
            << error.message();
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test
