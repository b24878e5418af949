// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {

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
          for (int i = 0; i < 5; ++i) require_count(c, i, 1);
          const Dim* length = single_element(c, 1);
          const Dim bins = length != nullptr ? Dim::floor_div(*length, 2) + 1 : c.found("bins");
          c.result(c.element_type("output_datatype"), {bins, dim_of_element(c, 0, 0, "bands")});
        },
    .eval =
        [](Evaluation& c) {
          const int64_t bands = single_value(c, 0, 1);
          const int64_t length = single_value(c, 1, 0);
          const auto rate = static_cast<double>(single_value(c, 2, 1));
          const double low = 2595 * std::log10(1 + single_number(c, 3, 0) / 700);
          const double high = 2595 * std::log10(1 + single_number(c, 4, 0) / 700);
          const double step = (high - low) / static_cast<double>(bands + 2);  // on the mel scale
          const DenseResult matrix(c.out(0, Dims{length / 2 + 1, bands}), ElementType::f64);
          std::vector<double> edges;  // where bands begin; the next two are a band's peak and end
          for (int64_t i = 0; i < bands + 2; ++i) {
            const double hertz =
                700 * (std::pow(10, (low + step * static_cast<double>(i)) / 2595) - 1);
            edges.push_back(std::floor(static_cast<double>(length + 1) * hertz / rate));
            c.check(std::abs(edges.back()) < 0x1p53, "edge {} is at {} hertz", i, hertz);
          }
          for (int64_t i = 0; i < matrix.count(); ++i) {
            const double* edge = edges.data() + i % bands;
            const auto bin = static_cast<double>(i / bands);
            const double foot = bin < edge[1] ? edge[0] : edge[2];
            const double slope = bin == edge[1] ? 1 : (bin - foot) / (edge[1] - foot);
            const bool inside = bin >= edge[0] && bin < std::max(edge[1] + 1, edge[2]);
            matrix.as<double>()[i] = inside ? slope : 0;  // the peak is 1 even at the end
          }
          matrix.store();
        },
}};

}  // namespace lathe
