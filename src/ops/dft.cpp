// SPDX-License-Identifier: MIT
#include "ops/support/dense_tensor.h"
#include "ops/support/fourier.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

// Nullopt where it is known only at run time.
std::optional<size_t> signal_axis(Infer& c) {
  int64_t axis = -2;
  if (c.has(2)) {
    const Dim* value = single_element(c, 2);
    if (value == nullptr || !value->is_constant()) return std::nullopt;
    axis = *value->constant();
  }
  const int found = c.axis(axis, c.rank(0));
  c.check(found < c.rank(0) - 1, "axis {} is the axis of complex numbers", axis);
  return static_cast<size_t>(found);
}

void infer_dft(Infer& c) {
  require_rank(c, 0, 2, kMaxRank);
  const std::optional<size_t> axis = signal_axis(c);
  const bool half = c.boolean("onesided");
  const bool real_result = half && c.boolean("inverse");
  const std::optional<int64_t> parts = c.dims(0).back().constant();
  c.check(!parts || *parts == 1 || *parts == 2, "the last axis has size {}, expected 1 or 2",
          c.dims(0).back().to_string());
  c.require_less_equal(1, c.dims(0).back(), "size of the last axis");
  c.require_less_equal(c.dims(0).back(), 2, "size of the last axis");
  std::vector<Dim> dims = c.dims(0);
  dims.back() = real_result ? 1 : 2;
  if (!axis) {
    for (size_t i = 0; i + 1 < dims.size(); ++i) dims[i] = c.found("dft");
    return c.result(c.element(0), std::move(dims));
  }
  Dim length = real_result ? (dims[*axis] - 1) * 2 : dims[*axis];
  if (c.has(1)) {
    const Dim* given = single_element(c, 1);
    if (given == nullptr) {
      dims[*axis] = c.found("dft");
      return c.result(c.element(0), std::move(dims));
    }
    length = *given;
  }
  c.require_less_equal(1, length, "length of the transform");
  dims[*axis] = half && !real_result ? Dim::floor_div(length, 2) + 1 : length;
  c.result(c.element(0), std::move(dims));
}

// Element k of the signal; absent imaginary parts are 0. Half a spectrum continues with conjugates.
std::complex<double> element(const double* x, int64_t parts, int64_t stride, int64_t k) {
  return {x[k * stride], parts == 2 ? x[k * stride + 1] : 0};
}

void eval_dft(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), ElementType::f64);
  const int64_t named = c.has(2) ? single_value(c, 2) : -2;
  c.check(named >= -x.rank() && named < x.rank() && named != -1 && named != x.rank() - 1,
          "axis {} is out of range or the axis of complex numbers, rank {}", named, x.rank());
  const auto axis = static_cast<size_t>(named < 0 ? named + x.rank() : named);
  const int64_t given = x.dims()[axis];
  const bool half = c.boolean("onesided");
  const bool real_result = half && c.boolean("inverse");
  const int64_t length = c.has(1) && c.in(1).count() > 0 ? single_value(c, 1)
                         : real_result                   ? 2 * (given - 1)
                                                         : given;
  c.check(length >= 1, "the transform has length {}, expected at least 1", length);
  Dims dims = x.dims();
  dims[axis] = half && !real_result ? length / 2 + 1 : length;
  dims.back() = real_result ? 1 : 2;
  const TensorView& out = c.out(0, dims);
  const Tensor y(ElementType::f64, dims);
  const int64_t parts = x.dims().back();
  Dims outer = dims;  // one vector each
  outer[axis] = outer.back() = 1;
  int64_t inner = 1;  // elements between neighbours of the axis, complex numbers as one
  for (size_t i = axis + 1; i + 1 < dims.size(); ++i) inner *= dims[i];
  Fourier fourier(length, c.boolean("inverse"));
  std::vector<std::complex<double>> from(static_cast<size_t>(length));
  std::vector<std::complex<double>> to(static_cast<size_t>(length));
  const Dims x_strides = Tensor::dense_strides(x.dims());
  const Dims y_strides = Tensor::dense_strides(dims);
  for_each_index(outer, [&](std::span<const int64_t> at) {
    const double* source = x.as<double>();
    double* target = y.as<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      source += at[i] * x_strides[i];
      target += at[i] * y_strides[i];
    }
    for (int64_t k = 0; k < length; ++k) {
      const bool mirrored = real_result && k > length / 2;
      const int64_t place = mirrored ? length - k : k;
      std::complex<double> value =
          place < given ? element(source, parts, inner * parts, place) : std::complex<double>();
      from[static_cast<size_t>(k)] = mirrored ? std::conj(value) : value;
    }
    fourier.run(from.data(), to.data());
    for (int64_t k = 0; k < dims[axis]; ++k) {
      double* place = target + k * inner * dims.back();
      place[0] = to[static_cast<size_t>(k)].real();
      if (!real_result) place[1] = to[static_cast<size_t>(k)].imag();
    }
  });
  store_tensor(y, out);
}

}  // namespace

static const Register dft{{
    .name = "dft",
    .doc = "The discrete Fourier transform of x[…, 1 or 2] (real, or real and imaginary) along an "
           "axis.",
    .operands = {{"x", kFloats},
                 {"dft_length", kIndices, Arity::optional},
                 {"axis", kIndices, Arity::optional}},
    .attributes = {{"inverse", Attribute(false)}, {"onesided", Attribute(false)}},
    .on_host = {1, 2},
    .infer = infer_dft,
    .eval = eval_dft,
}};

}  // namespace lathe
