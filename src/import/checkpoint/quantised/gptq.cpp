// SPDX-License-Identifier: MIT
// GPTQ. qweight i32 [inputs · bits / 32, outputs] has the codes of consecutive inputs, low bits
// first; qzeros i32 [groups, outputs · bits / 32] the zero points minus one (version 2: as they
// are) of consecutive outputs; scales [groups, outputs]; g_idx i32 [inputs] the group of each
// input, which act-order shuffles.
#include <algorithm>

#include "base/error.h"
#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {
namespace {

QuantisedMatrix read_gptq(const StoredTensor& codes, const StoredTensor& zeros,
                          const StoredTensor& scales, const std::vector<int32_t>& g_idx, int bits,
                          int64_t group, int offset) {
  const int64_t rows = codes.dims[1], per_word = 32 / bits;
  const int64_t groups = scales.dims[0];
  const uint32_t mask = (1U << bits) - 1;
  QuantisedMatrix m{.rows = rows,
                    .columns = codes.dims[0] * per_word,
                    .bits = bits,
                    .group = group,
                    .g_idx = g_idx,
                    .scales = transposed(plain_tensor(scales, scales.stored_name)),
                    .zeros = std::vector<uint8_t>(static_cast<size_t>(rows * groups)),
                    .read_rows = {}};
  const Tensor words = plain_tensor(codes, codes.stored_name);
  m.read_rows = [words, rows, per_word, bits, mask](int64_t first, int64_t count, uint8_t* to) {
    const int64_t columns = words.dims()[0] * per_word;
    for (int64_t k = 0; k < words.dims()[0]; ++k) {
      for (int64_t r = 0; r < count; ++r) {
        const uint32_t word = words.as<uint32_t>()[k * rows + first + r];
        for (int64_t i = 0; i < per_word; ++i) {
          to[r * columns + k * per_word + i] = static_cast<uint8_t>(word >> (i * bits) & mask);
        }
      }
    }
  };
  const Tensor packed = plain_tensor(zeros, zeros.stored_name);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint32_t word = packed.as<uint32_t>()[g * zeros.dims[1] + r / per_word];
      const uint32_t zero = (word >> (r % per_word * bits)) + static_cast<uint32_t>(offset);
      m.zeros[static_cast<size_t>(r * groups + g)] = static_cast<uint8_t>(zero & mask);
    }
  }
  return m;
}

void join_gptq_matrix(const Config& config, Weights& weights, const std::string& stem, int offset) {
  const std::string name = stem + ".qweight";
  const StoredTensor codes = weights.take(name);
  const StoredTensor zeros = weights.take(stem + ".qzeros");
  const StoredTensor scales = weights.take(stem + ".scales");
  check(codes.rank() == 2 && zeros.rank() == 2 && scales.rank() == 2 && codes.dims[1] > 0 &&
            codes.dims[0] > 0,
        ErrorKind::invalid_model, "tensor '{}' has shape [{}], expected 2 axes", escape(name),
        fmt::join(codes.dims, ", "));
  // Bits may differ from matrix to matrix.
  const int64_t rows = codes.dims[1];
  const int64_t bits = zeros.dims[1] * 32 / rows;
  check(bits == 2 || bits == 4 || bits == 8, ErrorKind::unsupported,
        "tensor '{}' has {} bits, supported are 2, 4 and 8", escape(name), bits);
  check(config.has("dynamic") || config.integer("bits", bits) == bits, ErrorKind::invalid_model,
        "tensor '{}' has {} bits, but 'bits' is {}", escape(name), bits, config.integer("bits", 0));
  const int64_t columns = codes.dims[0] * 32 / bits;
  const double stated = config.number("group_size", -1);
  const int64_t group = stated <= 0 || config.has("dynamic")
                            ? (columns + scales.dims[0] - 1) / std::max<int64_t>(scales.dims[0], 1)
                            : static_cast<int64_t>(std::min(stated, static_cast<double>(columns)));
  const int64_t groups = (columns + group - 1) / std::max<int64_t>(group, 1);
  check_part(codes, name, "I32", {columns * bits / 32, rows});
  check_part(zeros, stem + ".qzeros", "I32", {groups, rows * bits / 32});
  check_part(scales, stem + ".scales", scales.type, {groups, rows});
  std::vector<int32_t> g_idx;
  if (weights.has(stem + ".g_idx")) {
    const StoredTensor part = weights.take(stem + ".g_idx");
    check_part(part, stem + ".g_idx", "I32", {columns});
    g_idx = integers_of(part, stem + ".g_idx");
  }
  weights.insert(stem + ".weight", quantised_matrix(codes, "GPTQ", bits, rows, columns, [=] {
                   return read_gptq(codes, zeros, scales, g_idx, static_cast<int>(bits), group,
                                    offset);
                 }));
}

void join_gptq(const Config& config, Weights& weights) {
  const std::string format = config.text("checkpoint_format", "gptq");
  check(format == "gptq" || format == "gptq_v2", ErrorKind::unsupported,
        "'checkpoint_format' is '{}', supported are gptq and gptq_v2", escape(format));
  for_names_ending(weights, ".qweight", [&](const std::string& stem) {
    join_gptq_matrix(config, weights, stem, format == "gptq" ? 1 : 0);
  });
}

const RegisterQuantiser kGptq{
    {"gptq", "2, 4 and 8 bits, `g_idx` (act-order); becomes codes with scales and zero points",
     join_gptq}};

}  // namespace
}  // namespace lathe::checkpoint
