// SPDX-License-Identifier: MIT
// AWQ, layout "gemm". qweight i32 [inputs, outputs / 8] has 8 outputs per word, in the order 0, 2,
// 4, 6, 1, 3, 5, 7 from the low bits on; qzeros i32 [groups, outputs / 8] likewise; scales [groups,
// outputs].
#include <algorithm>

#include "base/error.h"
#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kPerWord = 8;

// The code of output r in a row of words.
[[gnu::always_inline]] inline uint8_t awq_code(const uint32_t* words, int64_t r) {
  const int64_t i = r % kPerWord;
  const int64_t place = i % 2 == 0 ? i / 2 : 4 + i / 2;
  return static_cast<uint8_t>(words[r / kPerWord] >> (4 * place) & 15);
}

QuantisedMatrix read_awq(const StoredTensor& codes, const StoredTensor& zeros,
                         const StoredTensor& scales) {
  const int64_t columns = codes.dims[0], width = codes.dims[1], groups = scales.dims[0];
  const int64_t rows = width * kPerWord;
  const Tensor words = plain_tensor(codes, codes.stored_name);
  const Tensor zero_words = plain_tensor(zeros, zeros.stored_name);
  QuantisedMatrix m;
  m.rows = rows;
  m.columns = columns;
  m.bits = 4;
  m.group = columns / groups;
  m.scales = transposed(plain_tensor(scales, scales.stored_name));
  m.zeros.resize(static_cast<size_t>(rows * groups));
  for (int64_t i = 0; i < rows * groups; ++i) {
    m.zeros[static_cast<size_t>(i)] =
        awq_code(zero_words.as<uint32_t>() + i % groups * width, i / groups);
  }
  m.read_rows = [words, columns, width](int64_t first, int64_t count, uint8_t* to) {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t r = 0; r < count; ++r) {
        to[r * columns + k] = awq_code(words.as<uint32_t>() + k * width, first + r);
      }
    }
  };
  return m;
}

void join_awq_matrix(Weights& weights, const std::string& stem) {
  const StoredTensor codes = weights.take(stem + ".qweight");
  const StoredTensor zeros = weights.take(stem + ".qzeros");
  const StoredTensor scales = weights.take(stem + ".scales");
  check(codes.rank() == 2 && scales.rank() == 2 && scales.dims[0] > 0 &&
            codes.dims[0] % scales.dims[0] == 0,
        ErrorKind::invalid_model,
        "tensor '{}' has shape [{}] and scales of shape [{}], expected 2 axes and groups of equal "
        "sizes",
        escape(stem + ".qweight"), fmt::join(codes.dims, ", "), fmt::join(scales.dims, ", "));
  check_part(codes, stem + ".qweight", "I32", codes.dims);
  check_part(zeros, stem + ".qzeros", "I32", {scales.dims[0], codes.dims[1]});
  check_part(scales, stem + ".scales", scales.type, {scales.dims[0], codes.dims[1] * kPerWord});
  weights.insert(stem + ".weight",
                 quantised_matrix(codes, "AWQ", 4, codes.dims[1] * kPerWord, codes.dims[0],
                                  [=] { return read_awq(codes, zeros, scales); }));
}

void join_awq(const Config& config, Weights& weights) {
  const std::string version = config.text("version", "gemm");
  const int64_t bits = config.integer("bits", 4);
  check((version == "gemm" || version == "GEMM") && bits == 4, ErrorKind::unsupported,
        "AWQ of version '{}' with {} bits is not supported, expected gemm with 4", escape(version),
        bits);
  for_names_ending(weights, ".qweight",
                   [&](const std::string& stem) { join_awq_matrix(weights, stem); });
}

const RegisterQuantiser kAwq{
    {"awq", "4 bits, layout `gemm`; becomes codes with scales and zero points", join_awq}};

}  // namespace
}  // namespace lathe::checkpoint
