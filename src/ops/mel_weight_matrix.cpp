// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_mel_weight_matrix(Infer& c) {
  for (int i = 0; i < 5; ++i) (void)single_element(c, i);
  const Dim* length = single_element(c, 1);
  c.result(c.element_type("output_datatype"),
           {length != nullptr ? Dim::floor_div(*length, 2) + 1 : c.found("bins"),
            dim_of_element(c, 0, 0, "bands")});
}

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

void eval_mel_weight_matrix(Evaluation& c) {
  const auto integer = [&](int i, std::string_view name, int64_t least) {
    const int64_t value = single_value(c, i);
    c.check(value >= least, "{} is {}, expected at least {}", name, value, least);
    return value;
  };
  const int64_t bands = integer(0, "num_mel_bins", 1);
  const int64_t length = integer(1, "dft_length", 0);
  const int64_t rate = integer(2, "sample_rate", 1);
  const double low = mel_of(single_number(c, 3, 0));
  const double step = (mel_of(single_number(c, 4, 0)) - low) / static_cast<double>(bands + 2);
  const int64_t bins = length / 2 + 1;
  const Dims dims = {bins, bands};
  const TensorView& out = c.out(0, dims);  // within the memory limit, before long work
  // The first bin of each band, of its peak and behind its end.
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = hertz_of(low + step * static_cast<double>(i));
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    c.check(std::abs(bin) < 0x1p53, "an edge of band {} is at {} hertz", i, hertz);
    edges.push_back(static_cast<int64_t>(bin));
  }
  const Tensor matrix(ElementType::f64, dims);
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t begin = edges[static_cast<size_t>(band)];
    const int64_t peak = edges[static_cast<size_t>(band) + 1];
    const int64_t end = edges[static_cast<size_t>(band) + 2];
    for (int64_t bin = std::max<int64_t>(begin, 0); bin < std::min(std::max(peak + 1, end), bins);
         ++bin) {
      const int64_t outside = bin < peak ? begin : end;
      matrix.as<double>()[bin * bands + band] =
          bin == peak ? 1
                      : static_cast<double>(bin - outside) / static_cast<double>(peak - outside);
    }
  }
  store_tensor(matrix, out);
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
    .infer = infer_mel_weight_matrix,
    .eval = eval_mel_weight_matrix,
}};

}  // namespace lathe
