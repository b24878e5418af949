// SPDX-License-Identifier: MIT
// A raised convolution or product is at most one step of its output from the unfused program, for
// random sizes, scales, zero points and biases.
#include "passes/raise_quantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int kPrograms = 200;

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  std::string text() {
    const bool is_signed = chance();
    const std::string byte = is_signed ? "i8" : "u8";
    const int64_t lowest = is_signed ? -128 : 0;
    const int64_t outputs = between(1, 9);
    const bool per_output = chance();
    const bool is_conv = chance();
    const int64_t inputs = between(1, 24);
    const int64_t window = is_conv ? between(1, 3) : 1;
    const double x_scale = scale();
    const std::vector<double> w_scales = scales(per_output ? outputs : 1, scale());
    // From saturating results to results of a few steps.
    const double largest = x_scale * w_scales[0] * 127 * 64 * std::sqrt(double(inputs * window));
    const double y_scale = largest / 128 * std::exp2(real(-4, 4));
    out_ = "program \"random\" stage imported {\n  module @main(%x: " + byte;
    out_ += is_conv ? fmt::format("[2, {}, 6, 5]", inputs) : fmt::format("[3, 5, {}]", inputs);
    out_ += ") {\n";
    line("xs", "f32[]", {x_scale});
    line("xz", byte + "[]", integers(1, lowest, lowest + 255));
    const std::string dims = is_conv
                                 ? fmt::format("{}, {}, {}, {}", outputs, inputs, window, window)
                                 : fmt::format("{}, {}", inputs, outputs);
    const int64_t count = outputs * inputs * window * window;
    line("wq", fmt::format("i8[{}]", dims), integers(count, -128, 127));
    const std::string form = per_output ? fmt::format("[{}]", outputs) : "[]";
    line("ws", "f32" + form, w_scales);
    line("wz", "i8" + form, std::vector<double>(w_scales.size(), 0));
    std::vector<double> bias(static_cast<size_t>(outputs));
    for (double& value : bias) value = real(-1, 1) * 40 * y_scale;
    line("b", fmt::format("f32[{}]", outputs), bias);
    line("ys", "f32[]", {y_scale});
    line("yz", byte + "[]", integers(1, lowest, lowest + 255));
    out_ += "    %a = dequantize_linear(%x, %xs, %xz)\n";
    out_ +=
        fmt::format("    %w = dequantize_linear(%wq, %ws, %wz) {{axis = {}}}\n", is_conv ? 0 : 1);
    out_ += is_conv ? "    %c = conv(%a, %w, %b)\n" : "    %c = matmul(%a, %w)\n";
    out_ += "    %y = quantize_linear(%c, %ys, %yz)\n    return %y as \"y\"\n  }\n}\n";
    return out_;
  }

  std::mt19937_64& random() { return random_; }

 private:
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool chance() { return between(0, 1) == 1; }
  double scale() { return std::exp2(real(-12, 2)); }
  std::vector<double> scales(int64_t count, double middle) {
    std::vector<double> list(static_cast<size_t>(count));
    for (double& value : list) value = middle * std::exp2(real(-2, 2));
    return list;
  }
  std::vector<double> integers(int64_t count, int64_t low, int64_t high) {
    std::vector<double> list(static_cast<size_t>(count));
    for (double& value : list) value = static_cast<double>(between(low, high));
    return list;
  }
  void line(std::string_view name, const std::string& type, const std::vector<double>& numbers) {
    out_ += fmt::format("    %{} = literal {} {{", name, type);
    const bool integral = type[0] != 'f';
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += integral ? fmt::format("{}", static_cast<int64_t>(numbers[i]))
                       : fmt::format("{:.9g}", numbers[i]);
    }
    out_ += "}\n";
  }

  std::mt19937_64 random_;
  std::string out_;
};

Tensor run_once(std::unique_ptr<Program> program, const Tensor& x) {
  Session session(compile_as_written(std::move(program)), SessionOptions{});
  return session.run(std::vector<Box>{Box{x}}, RunOptions{}).front().tensor().dense();
}

TEST(RaiseQuantized, StaysWithinOneStepOfTheUnfusedProgram) {
  int raised = 0;
  int64_t moved = 0;
  for (int seed = 0; seed < kPrograms; ++seed) {
    RandomProgram made(static_cast<uint64_t>(seed));
    const auto before = parse_program(made.text());
    auto after = before->clone();
    if (!raise_quantized.run(*after)) continue;
    ++raised;
    const Type& type = before->main().parameters()[0]->type();
    Dims dims;
    for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
    Tensor x(type.element, dims);
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<uint8_t>()[i] = static_cast<uint8_t>(made.random()());
    const Tensor expected = run_once(before->clone(), x);
    const Tensor actual = run_once(std::move(after), x);
    ASSERT_EQ(actual.type(), expected.type());
    for (int64_t i = 0; i < expected.count(); ++i) {
      const int64_t distance = std::abs(load_int(actual.type(), actual.data(), i) -
                                        load_int(expected.type(), expected.data(), i));
      ASSERT_LE(distance, 1) << "seed " << seed << ", element " << i << "\n" << print(*before);
      moved += distance;
    }
  }
  EXPECT_GT(raised, kPrograms / 2);
  EXPECT_GT(moved, 0);  // the bound is reached
}

// Half a step of a bias may be rounded away, not more.
TEST(RaiseQuantized, LeavesABiasThatItsUnitsCannotHold) {
  constexpr std::string_view kText = R"(program "coarse" stage imported {{
  module @main(%x: u8[1, 1, 2, 2]) {{
    %xs = literal f32[] {{1}}
    %wq = literal i8[1, 1, 1, 1] {{1}}
    %ws = literal f32[] {{1}}
    %b = literal f32[1] {{0.5}}
    %ys = literal f32[] {{{}}}
    %a = dequantize_linear(%x, %xs)
    %w = dequantize_linear(%wq, %ws)
    %c = conv(%a, %w, %b)
    %y = quantize_linear(%c, %ys)
    return %y as "y"
  }}
}})";
  EXPECT_TRUE(raise_quantized.run(*parse_program(fmt::format(kText, 1.0))));
  EXPECT_FALSE(raise_quantized.run(*parse_program(fmt::format(kText, 0.5))));
}

}  // namespace
}  // namespace lathe
