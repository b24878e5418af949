// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/thread_pool.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/fourier.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_stft(Infer& c) {
  // A real signal may come without its last axis.
  require_rank(c, 0, 2, 3);
  const Dim elements_of_sample = c.rank(0) == 2 ? Dim(1) : c.dim(0, 2);
  const std::optional<int64_t> parts = elements_of_sample.constant();
  const int64_t most = c.boolean("onesided") ? 1 : 2;
  c.check(!parts || (*parts >= 1 && *parts <= most), "signal's last axis has size {}, expected {}",
          elements_of_sample.to_string(), most == 1 ? "1 (onesided)" : "1 or 2");
  c.require_less_equal(elements_of_sample, most, "size of the signal's last axis");
  c.require_less_equal(1, elements_of_sample, "size of the signal's last axis");
  // With a data-dependent length or step, frames and bins are found symbols.
  std::optional<Dim> length = c.has(2) ? c.dim(2, 0) : c.dim(0, 1);
  if (c.has(3)) {
    const Dim* given = single_element(c, 3);
    if (given != nullptr) {
      if (c.has(2)) c.require_equal(*length, *given, "frame_length and window length");
      length = *given;
    } else if (!c.has(2)) {
      length.reset();
    }
  }
  if (length) c.require_less_equal(*length, c.dim(0, 1), "frame_length");
  const Dim* step = single_element(c, 1);
  const std::optional<int64_t> stride =
      step != nullptr ? step->constant() : std::optional<int64_t>();
  c.check(!stride || *stride > 0, "frame_step is {}, expected at least 1", stride.value_or(0));
  const Dim frames = stride && length ? Dim::floor_div(c.dim(0, 1) - *length, *stride) + 1
                                      : c.found("frames", {0, c.dim(0, 1).range().max});
  const Dim bins = !length                 ? c.found("bins", {0, c.dim(0, 1).range().max})
                   : c.boolean("onesided") ? Dim::floor_div(*length, 2) + 1
                                           : *length;
  c.result(c.element(0), {c.dim(0, 0), frames, bins, 2});
}

void eval_stft(Evaluation& c) {
  const Tensor signal = dense_tensor(c.in(0), ElementType::f64);
  const int64_t samples = signal.dims()[1];
  const int64_t parts = signal.rank() == 2 ? 1 : signal.dims()[2];
  const int64_t step = single_value(c, 1, 1);
  const Tensor window = c.has(2) ? dense_tensor(c.in(2), ElementType::f64) : Tensor();
  const int64_t length = c.has(3) ? single_value(c, 3) : c.has(2) ? window.count() : samples;
  c.check(length >= 1 && length <= samples, "frame_length is {}, the signal has {} samples", length,
          samples);
  c.check(!c.has(2) || window.count() == length, "the window has {} elements, expected {}",
          window.count(), length);
  const int64_t frames = (samples - length) / step + 1;
  const int64_t bins = c.boolean("onesided") ? length / 2 + 1 : length;
  const Dims dims = {signal.dims()[0], frames, bins, 2};
  const TensorView& out = c.out(0, dims);
  const Tensor y(ElementType::f64, dims);
  const int64_t grain = std::max<int64_t>(1, 4096 / length);
  parallel_for(c.pool, dims[0] * frames, grain, [&](int64_t begin, int64_t end) {
    Fourier fourier(length, false);
    std::vector<std::complex<double>> from(static_cast<size_t>(length));
    std::vector<std::complex<double>> to(static_cast<size_t>(length));
    double* target = y.as<double>() + begin * bins * 2;
    for (int64_t frame = begin; frame < end; ++frame) {
      const double* source =
          signal.as<double>() + (frame / frames * samples + frame % frames * step) * parts;
      for (int64_t k = 0; k < length; ++k) {
        const double weight = c.has(2) ? window.as<double>()[k] : 1;
        from[static_cast<size_t>(k)] = {source[k * parts] * weight,
                                        parts == 2 ? source[k * parts + 1] * weight : 0};
      }
      fourier.run(from.data(), to.data());
      for (int64_t k = 0; k < bins; ++k) {
        *target++ = to[static_cast<size_t>(k)].real();
        *target++ = to[static_cast<size_t>(k)].imag();
      }
    }
  });
  store_tensor(y, out);
}

}  // namespace

static const Register stft{{
    .name = "stft",
    .doc =
        "Fourier transforms of windowed frames of signal[batch, samples, 1 or 2]: [batch, frames, "
        "bins, 2].",
    .operands = {{"signal", kFloats, Arity::one, 'T'},
                 {"frame_step", kIndices},
                 {"window", kFloats, Arity::optional, 'T'},
                 {"frame_length", kIndices, Arity::optional}},
    .attributes = {{"onesided", Attribute(true)}},
    .on_host = {1, 3},
    .infer = infer_stft,
    .eval = eval_stft,
}};

}  // namespace lathe
