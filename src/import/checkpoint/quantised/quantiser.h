// SPDX-License-Identifier: MIT
// The quantisers whose Hugging Face folders can be read. Each file registers its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "import/checkpoint/config.h"
#include "import/checkpoint/packed_matrix.h"
#include "import/checkpoint/weights.h"

namespace lathe::checkpoint {

struct Quantiser {
  std::string_view method;  // `quant_method` of quantization_config
  std::string_view doc;     // what is read, for documents
  // Replaces the parts of each quantised tensor by the tensor, checking their shapes.
  void (*join)(const Config& quantization, Weights& weights);
};

class RegisterQuantiser {
 public:
  explicit RegisterQuantiser(Quantiser quantiser);
};

// In the order of their methods.
const std::vector<Quantiser>& quantisers();

// Unsupported for a `quantization_config` of another method.
void check_quantiser(const Config& config);
// Joins the tensors by the configuration's `quantization_config`.
void join_quantised(const Config& config, Weights& weights);

// For quantisers:

// A tensor of these elements, read when they are needed. The type's name is followed by the bits.
StoredTensor quantised_matrix(const StoredTensor& codes, std::string_view name, int64_t bits,
                              int64_t rows, int64_t columns, std::function<QuantisedMatrix()> read);
StoredTensor dequantised_tensor(const StoredTensor& codes, std::string type, Dims dims,
                                std::function<Tensor()> read);

// Calls f(stem) for each name that ends in `suffix`; f may change the weights.
void for_names_ending(const Weights& weights, std::string_view suffix,
                      const std::function<void(const std::string& stem)>& f);
// The elements of an integer tensor of 32 bits, or fewer.
std::vector<int32_t> integers_of(const StoredTensor& stored, std::string_view name);
// A dense matrix with its axes exchanged.
Tensor transposed(const Tensor& matrix);
// InvalidModel unless the tensor has this type and shape.
void check_part(const StoredTensor& stored, std::string_view name, std::string_view type,
                const Dims& dims);

}  // namespace lathe::checkpoint
