// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/os_code_memory.h"
#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

struct Case {
  std::string_view name;
  std::string_view parameters;
  std::string_view anchor;  // defines %c
  std::string_view result;  // its shape
  std::string_view columns;
  std::vector<Dims> dims;  // of the parameters
};

Dims dims_of(std::string_view text) {
  Dims dims;
  for (size_t at = 0; at < text.size(); at = text.find_first_of(", ", at)) {
    at = text.find_first_of("0123456789", at);
    dims.push_back(std::stoll(std::string(text.substr(at))));
  }
  return dims;
}

// The shape of one number for each row.
Dims rows_of(const Case& c) {
  Dims dims = dims_of(c.result);
  dims[dims_of(c.columns).size() == 1 ? dims.size() - 1 : 1] = 1;
  return dims;
}

// Mish of what is above 0, the rest times a factor per column, a number per row and a residual:
// values that several instructions read, and booleans.
std::string program_of(const Case& c, std::string_view type) {
  std::string text =
      fmt::format(R"(program "tiles" stage imported {{
  module @main({}, %s: T[1], %p: T[{}], %q: T[{}], %r: T[{}]) {{
    %c = {}
    %a = softplus(%c)
    %t = tanh(%a)
    %m = mul(%c, %t)
    %g = greater(%c, %s)
    %h = mul(%c, %p)
    %u = where(%g, %m, %h)
    %v = sub(%u, %q)
    %y = add(%v, %r)
    return %y as "y"
  }}
}})",
                  c.parameters, c.columns, fmt::join(rows_of(c), ", "), c.result, c.anchor);
  for (size_t at = 0; (at = text.find(": T[", at)) != std::string::npos;) {
    text.replace(at + 2, 1, type);
  }
  return text;
}

Tensor filled(ElementType type, const Dims& dims, int64_t step) {
  Tensor floats(ElementType::f32, dims), tensor(type, dims);
  for (int64_t i = 0; i < floats.count(); ++i) {
    floats.as<float>()[i] = static_cast<float>(i * step % 29 - 14) / 16;
  }
  convert(type, tensor.data(), ElementType::f32, floats.data(), floats.count());
  return tensor;
}

std::vector<Box> inputs_of(const Case& c, ElementType type) {
  std::vector<Box> inputs;
  std::vector<Dims> all = c.dims;
  all.insert(all.end(), {dims_of(c.columns), rows_of(c), dims_of(c.result)});
  for (const Dims& dims : all) {
    if (inputs.size() == c.dims.size()) {
      Tensor zero(type, {1});
      std::memset(zero.data(), 0, static_cast<size_t>(zero.byte_size()));
      inputs.emplace_back(std::move(zero));
    }
    inputs.emplace_back(filled(type, dims, static_cast<int64_t>(inputs.size()) * 4 + 3));
  }
  return inputs;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"direct",
       "%x: T[2, 5, 9, 7], %k: T[24, 5, 3, 3], %b: T[24]",
       "conv(%x, %k, %b)",
       "2, 24, 7, 5",
       "24, 1, 1",
       {{2, 5, 9, 7}, {24, 5, 3, 3}, {24}}},
      {"pointwise",
       "%x: T[3, 16, 5, 6], %k: T[40, 16, 1, 1]",
       "conv(%x, %k)",
       "3, 40, 5, 6",
       "40, 1, 1",
       {{3, 16, 5, 6}, {40, 16, 1, 1}}},
      {"winograd",
       "%x: T[1, 32, 16, 16], %k: T[32, 32, 3, 3], %b: T[32]",
       "conv(%x, %k, %b) {pads = [1, 1, 1, 1]}",
       "1, 32, 16, 16",
       "32, 1, 1",
       {{1, 32, 16, 16}, {32, 32, 3, 3}, {32}}},
      {"depthwise",
       "%x: T[2, 24, 9, 7], %k: T[24, 1, 3, 3]",
       "conv(%x, %k) {group = 24}",
       "2, 24, 7, 5",
       "24, 1, 1",
       {{2, 24, 9, 7}, {24, 1, 3, 3}}},
      {"groups",
       "%x: T[1, 8, 6, 5], %k: T[36, 4, 3, 3]",
       "conv(%x, %k) {group = 2}",
       "1, 36, 4, 3",
       "36, 1, 1",
       {{1, 8, 6, 5}, {36, 4, 3, 3}}},
      {"transposed",
       "%x: T[2, 5, 4, 6], %k: T[5, 20, 3, 2], %b: T[20]",
       "conv_transpose(%x, %k, %b) {strides = [2, 2]}",
       "2, 20, 9, 12",
       "20, 1, 1",
       {{2, 5, 4, 6}, {5, 20, 3, 2}, {20}}},
      {"matmul",
       "%x: T[2, 7, 33], %w: T[33, 70]",
       "matmul(%x, %w)",
       "2, 7, 70",
       "70",
       {{2, 7, 33}, {33, 70}}},
      {"split",
       "%x: T[3, 4200], %w: T[4200, 50]",
       "matmul(%x, %w)",
       "3, 50",
       "50",
       {{3, 4200}, {4200, 50}}},
      {"batch",
       "%x: T[3, 5, 8], %w: T[3, 8, 19]",
       "matmul(%x, %w)",
       "3, 5, 19",
       "19",
       {{3, 5, 8}, {3, 8, 19}}},
      {"gemm",
       "%x: T[6, 9], %w: T[31, 9], %z: T[6, 1]",
       "gemm(%x, %w, %z) {alpha = 0.5, beta = 2.0, trans_b = true}",
       "6, 31",
       "31",
       {{6, 9}, {31, 9}, {6, 1}}},
  };
  return all;
}

Tensor run(const Plan& plan, const std::vector<Box>& inputs, ThreadPool* pool) {
  Session session(std::shared_ptr<const Plan>(std::shared_ptr<void>(), &plan),
                  {.pool = pool, .warn = {}});
  return session.run(inputs).at(0).tensor();
}

TEST(TileEpilogue, ComputesAnyElementwiseInstructionsBehindAnAnchor) {
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, to_string(type)));
      const std::string text = program_of(c, to_string(type));
      const auto plan = compile(parse_program(text), {.target = find_target("cpu")});
      const auto& launches = plan->modules.front().launches;
      ASSERT_EQ(launches.size(), 1u);
      EXPECT_TRUE(std::string(launches[0].kernel->name())
                      .ends_with("+softplus+tanh+mul+greater+mul+where+sub+add"))
          << launches[0].kernel->name();
      const auto reference = compile(parse_program(text), {.target = find_target("ref")});
      const std::vector<Box> inputs = inputs_of(c, type);
      const Tensor found = run(*plan, inputs, &pool);
      const Tensor expected = run(*reference, inputs, nullptr);
      ASSERT_EQ(found.dims(), expected.dims());
      std::vector<float> x(static_cast<size_t>(found.count())), y(x.size());
      convert(ElementType::f32, x.data(), found.type(), found.data(), found.count());
      convert(ElementType::f32, y.data(), expected.type(), expected.data(), expected.count());
      const float scale = type == ElementType::f32 ? 2e-5F : 4e-2F;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], y[i], scale * std::max(1.0F, std::abs(y[i]))) << i;
      }
      refuse_code_memory(true);
      const auto other = compile(parse_program(text), {.target = find_target("cpu")});
      const Tensor interpreted = run(*other, inputs, &pool);
      refuse_code_memory(false);
      EXPECT_EQ(
          std::memcmp(found.data(), interpreted.data(), static_cast<size_t>(found.byte_size())), 0);
    }
  }
}

}  // namespace
}  // namespace lathe
#endif
