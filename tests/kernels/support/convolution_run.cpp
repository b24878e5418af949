// SPDX-License-Identifier: MIT
#include "tests/kernels/support/convolution_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "targets/cpu/kernels/conv/winograd.h"

namespace lathe::cpu::test {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kGuardByte{0xA5};

bool is_byte(ElementType type) { return type == ElementType::u8 || type == ElementType::i8; }

void put(std::vector<std::byte>& memory, ElementType type, int64_t i, double value) {
  const auto at = static_cast<size_t>(bytes_for(type, i));
  const auto write = [&](auto element) {
    std::memcpy(memory.data() + at, &element, sizeof element);
  };
  if (type == ElementType::f32) return write(static_cast<float>(value));
  if (type == ElementType::bf16)
    return write(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  if (type == ElementType::u8) return write(static_cast<uint8_t>(value));
  write(static_cast<int8_t>(value));
}

double get(const std::vector<std::byte>& memory, ElementType type, int64_t i) {
  const auto at = static_cast<size_t>(bytes_for(type, i));
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, memory.data() + at, sizeof value);
    return value;
  };
  if (type == ElementType::f32) return double{read(float{})};
  if (type == ElementType::bf16)
    return double{std::bit_cast<float>(uint32_t{read(uint16_t{})} << 16)};
  if (type == ElementType::i32) return read(int32_t{});
  if (type == ElementType::u8) return read(uint8_t{});
  return read(int8_t{});
}

// Exact in bf16.
double bf16_value(Random& random) { return static_cast<double>(pick(random, -127, 127)) / 64; }

template <class T>
const T& one_of(Random& random, std::initializer_list<T> list) {
  return list.begin()[pick(random, 0, static_cast<int64_t>(list.size()) - 1)];
}

}  // namespace

ConvRun::ConvRun(const ConvProblem& problem, Isa isa, Random& random) : p_(problem), isa_(isa) {
  using Layout = ActivationLayout;
  p_.x_layout = one_of(random, {Layout::channels_last, Layout::channels_first});
  p_.y_layout = one_of(random, {Layout::channels_last, Layout::channels_first});
  w_type_ = p_.x_type;
  const bool bytes = p_.is_integer();
  if (bytes) {
    w_type_ = one_of(random, {ElementType::i8, ElementType::i8, ElementType::u8});
    p_.y_type =
        one_of(random, {ElementType::i32, ElementType::u8, ElementType::i8, ElementType::f32});
    x_zero_ = static_cast<int32_t>(p_.x_type == ElementType::u8 ? pick(random, 0, 255)
                                                                : pick(random, -128, 127));
    if (pick(random, 0, 2) == 0) x_zero_ = 0;  // padding is zero
  } else {
    p_.y_type = one_of(random, {ElementType::f32, p_.x_type});
  }
  const bool has_zeros = bytes && pick(random, 0, 1) == 0;
  has_bias_ = pick(random, 0, 1) == 0;
  has_residual_ = p_.y_type != ElementType::i32 && pick(random, 0, 1) == 0;
  has_relu_ = p_.y_type != ElementType::i32 && pick(random, 0, 1) == 0;
  const bool extreme = bytes && pick(random, 0, 3) == 0;  // 255 × ±127: int16 would saturate
  const auto random_value = [&](ElementType type) -> double {
    if (!is_byte(type)) return bf16_value(random);
    const int64_t low = type == ElementType::u8 ? 0 : -128;
    if (extreme) return static_cast<double>(low + (pick(random, 0, 1) == 0 ? 255 : 1));
    return static_cast<double>(pick(random, low, low + 255));
  };
  const int64_t inputs = input_count(p_), weights = weight_count(p_);
  x_memory_.resize(static_cast<size_t>(bytes_for(p_.x_type, inputs)));
  w_memory_.resize(static_cast<size_t>(bytes_for(w_type_, weights)));
  for (int64_t i = 0; i < inputs; ++i) {
    const double value = random_value(p_.x_type);
    x_.push_back(value - x_zero_);
    put(x_memory_, p_.x_type, memory_index(p_.x_layout, p_.channels, p_.input_positions(), i),
        value);
  }
  for (int64_t m = 0; m < p_.outputs; ++m) {
    const int64_t low = w_type_ == ElementType::u8 ? 0 : -128;
    w_zero_.push_back(has_zeros ? static_cast<int32_t>(pick(random, low, low + 255)) : 0);
    bias_.push_back(has_bias_ ? static_cast<int32_t>(pick(random, -1000, 1000)) : 0);
    scale_.push_back(static_cast<float>(pick(random, 1, 64)) / 4096);
  }
  for (int64_t i = 0; i < weights; ++i) {
    const double value = random_value(w_type_);
    int64_t m = i / (p_.group_channels() * p_.taps());
    if (p_.transposed) {
      const int64_t channel = i / p_.taps() / p_.group_outputs();
      m = channel / p_.group_channels() * p_.group_outputs() + i / p_.taps() % p_.group_outputs();
    }
    w_.push_back(value - w_zero_[static_cast<size_t>(m)]);
    put(w_memory_, w_type_, i, value);
  }
  for (int64_t i = 0; has_residual_ && i < output_count(p_); ++i)
    residual_.push_back(static_cast<float>(bf16_value(random)));
  const bool has_out_zero = is_byte(p_.y_type) && pick(random, 0, 2) != 0;
  out_zero_ = has_out_zero ? static_cast<float>(pick(random, 0, 100)) : 0;
}

std::string ConvRun::text() const {
  std::string text = p_.text();
  for (const ConvAxis& a : p_.axes)
    text += fmt::format(", in {} out {} d{} p{}", a.input, a.output, a.dilation, a.pad);
  return text +
         fmt::format(", {} {} -> {} {}, zero {}", static_cast<int>(p_.x_layout), to_string(w_type_),
                     to_string(p_.y_type), static_cast<int>(p_.y_layout), x_zero_) +
         (has_bias_ ? " bias" : "") + (has_residual_ ? " residual" : "") +
         (has_relu_ ? " relu" : "");
}

std::vector<std::byte> ConvRun::output(ConvForm form, ThreadPool* pool) const {
  const auto conv = make_convolution(form, p_, isa_);
  std::vector<std::byte> packed(conv->packed_bytes() + 64 + kGuard, kGuardByte);
  std::byte* weights = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) % 64;
  conv->pack({w_memory_.data(), w_type_, w_zero_.data()}, weights, pool);
  for (std::byte* p = weights + conv->packed_bytes(); p != packed.data() + packed.size(); ++p)
    EXPECT_EQ(*p, kGuardByte) << "beyond the packed weights";

  const int64_t count = output_count(p_);
  const auto bytes = static_cast<size_t>(bytes_for(p_.y_type, count));
  std::vector<std::byte> y(bytes + 2 * kGuard, kGuardByte);
  std::vector<EpilogueStep> steps;
  std::vector<int64_t> images;
  const std::vector<float> bias(bias_.begin(), bias_.end());
  using Kind = EpilogueStep::Kind;
  if (p_.is_integer() && p_.y_type != ElementType::i32) {
    steps.push_back({Kind::mul, {scale_.data(), ElementType::f32, 0, 1}});
    images.push_back(0);
  } else if (!p_.is_integer() && has_bias_) {
    steps.push_back({Kind::add, {bias.data(), ElementType::f32, 0, 1}});
    images.push_back(0);
  }
  if (has_residual_) {
    const bool last = p_.y_layout == ActivationLayout::channels_last;
    steps.push_back({Kind::add,
                     {residual_.data(), ElementType::f32, last ? p_.outputs : 1,
                      last ? 1 : p_.output_positions()}});
    images.push_back(p_.outputs * p_.output_positions());
  }
  if (has_relu_) {
    steps.push_back({Kind::activate, {}, Activation::relu});
    images.push_back(0);
  }
  ConvCall call;
  call.x = x_memory_.data();
  call.weights = weights;
  call.y = y.data() + kGuard;
  call.epilogue.steps = steps;
  call.epilogue.out = p_.y_type;
  call.epilogue.out_zero.scale = out_zero_;
  call.operand_images = images;
  call.integer_bias = p_.is_integer() && has_bias_ ? bias_.data() : nullptr;
  call.x_zero = x_zero_;
  call.pool = pool;
  conv->run(call);
  for (size_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(y[i], kGuardByte) << "before the outputs";
    EXPECT_EQ(y[kGuard + bytes + i], kGuardByte) << "beyond the outputs";
  }
  return {y.begin() + kGuard, y.begin() + static_cast<int64_t>(kGuard + bytes)};
}

// Applies the epilogue to one accumulator, in f32 as the kernels do.
double ConvRun::apply_epilogue(double sum, int64_t i) const {
  const auto m = static_cast<size_t>(i / p_.output_positions() % p_.outputs);
  if (p_.y_type == ElementType::i32) return sum + bias_[m];
  float y = static_cast<float>(sum + (p_.is_integer() ? bias_[m] : 0));
  if (p_.is_integer()) {
    y *= scale_[m];
  } else {
    y += static_cast<float>(bias_[m]);
  }
  if (has_residual_) {
    y += residual_[static_cast<size_t>(
        memory_index(p_.y_layout, p_.outputs, p_.output_positions(), i))];
  }
  if (has_relu_) y = std::max(y, 0.0F);
  if (!is_byte(p_.y_type)) return double{y};
  const double low = p_.y_type == ElementType::u8 ? 0 : -128;
  return std::clamp(std::nearbyint(double{y}) + double{out_zero_}, low, low + 255);
}

std::vector<double> ConvRun::winograd_magnitudes() const {
  double largest = 0;
  for (const double x : x_) largest = std::max(largest, std::abs(x));
  std::vector<double> out;
  for (int64_t i = 0; i < output_count(p_); ++i) {
    const int64_t each = p_.group_channels() * p_.taps();
    const int64_t m = i / p_.output_positions() % p_.outputs;
    double sum = 0;
    for (int64_t k = 0; k < each; ++k) sum += std::abs(w_[static_cast<size_t>(m * each + k)]);
    out.push_back(largest * sum);
  }
  return out;
}

void ConvRun::expect_result(ConvForm form, ThreadPool* pool) const {
  std::vector<double> magnitude;
  const auto accumulators = naive_convolution(p_, x_, w_, &magnitude);
  double factor = 2;
  if (form == ConvForm::winograd2 || form == ConvForm::winograd4) {
    factor = winograd_error(form == ConvForm::winograd2 ? 2 : 4);
    magnitude = winograd_magnitudes();
  }
  const auto y = output(form, pool);
  int failures = 0;
  for (size_t i = 0; i < accumulators.size() && failures < 5; ++i) {
    const auto at =
        memory_index(p_.y_layout, p_.outputs, p_.output_positions(), static_cast<int64_t>(i));
    const double value = get(y, p_.y_type, at),
                 expected = apply_epilogue(accumulators[i], static_cast<int64_t>(i));
    double bound = 0;
    if (!p_.is_integer()) {
      bound = factor * std::ldexp(magnitude[i] + std::abs(expected) + 64, -24);
      if (p_.y_type == ElementType::bf16) bound += std::ldexp(std::abs(expected), -8);
    }
    if (std::abs(value - expected) <= bound) continue;
    ADD_FAILURE() << "value " << i << " is " << value << ", expected " << expected << " within "
                  << bound;
    ++failures;
  }
}

}  // namespace lathe::cpu::test
