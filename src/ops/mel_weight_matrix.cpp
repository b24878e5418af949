// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// The filter of a band, a triangle between two bins, at a bin; its peak is 1 even at the end.
double filter(double bin, double begin, double peak, double end) {
  if (bin < begin || bin >= std::max(peak + 1, end)) return 0;
  const double foot = bin < peak ? begin : end;
  return bin == peak ? 1 : (bin - foot) / (peak - foot);
}

void eval_mel_weight_matrix(Evaluation& c) {
  const int64_t bands = single_value(c, 0, 1);
  const int64_t length = single_value(c, 1, 0);
  const auto rate = static_cast<double>(single_value(c, 2, 1));
  const double low = mel_of(single_number(c, 3, 0));
  const double step = (mel_of(single_number(c, 4, 0)) - low) / static_cast<double>(bands + 2);
  const int64_t bins = length / 2 + 1;
  const DenseResult matrix(c.out(0, Dims{bins, bands}), ElementType::f64);
  // The bin where a band begins; the next two are its peak's and its end's.
  const auto edge = [&](int64_t band) {
    const double hertz = hertz_of(low + step * static_cast<double>(band));
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / rate);
    c.check(std::abs(bin) < 0x1p53, "an edge of band {} is at {} hertz", band, hertz);
    return bin;
  };
  for (int64_t band = 0; band < bands; ++band) {
    const double begin = edge(band), peak = edge(band + 1), end = edge(band + 2);
    for (int64_t bin = 0; bin < bins; ++bin) {
      matrix.as<double>()[bin * bands + band] = filter(static_cast<double>(bin), begin, peak, end);
    }
  }
  matrix.store();
}

}  // namespace

static const Register mel_weight_matrix{{
    .name = "mel_weight_matrix",
    .doc = "Triangular filters on the mel scale: [dft_length / 2 + 1, num_mel_bins].",
    .operands = {{"num_mel_bins", kIndices},
                 {"dft_length", kIndices},
                 {"sample_rate", kIndices},
                 {"lower_edge_hertz", kFloats},
                 {"upper_edge_hertz", kFloats}},
    .attributes = {{"output_datatype", Attribute(ElementType::f32)}},
    .on_host = {0, 1, 2, 3, 4},
    .infer =
        [](Infer& c) {
          for (const int i : {2, 3, 4}) require_count(c, i, 1);
          const Dim* bands = single_element(c, 0);
          const Dim* length = single_element(c, 1);
          c.result(c.element_type("output_datatype"),
                   {length != nullptr ? Dim::floor_div(*length, 2) + 1 : c.found("bins"),
                    bands != nullptr ? *bands : c.found("bands")});
        },
    .eval = eval_mel_weight_matrix,
}};

}  // namespace lathe
