// SPDX-License-Identifier: MIT
// compressed-tensors. int4 and int8, packed: weight_packed i32 [outputs, inputs · bits / 32] has
// the codes, low bits first, plus 2^(bits - 1); weight_zero_point likewise along the outputs, or
// i8; weight_scale [outputs, groups]. int8 and fp8 as they are: weight with weight_scale.
#include <algorithm>

#include "base/error.h"
#include "import/checkpoint/quantised/fp8.h"
#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {
namespace {

constexpr std::string_view kFormats[] = {"pack-quantized", "int-quantized", "float-quantized",
                                         "naive-quantized"};

struct CompressedParts {
  StoredTensor codes, scales;
  std::optional<StoredTensor> zeros;
  std::vector<int32_t> g_idx;
  int64_t rows = 0, columns = 0, groups = 0;
  int bits = 0;
};

// Scales [rows, groups], or one for all rows.
Tensor compressed_scales(const CompressedParts& p) {
  const Tensor scales = plain_tensor(p.scales, p.scales.stored_name);
  const bool one = scales.count() == 1;
  Tensor out(scales.type(), {p.rows, p.groups}, {one ? 0 : p.groups, 1}, scales.data(),
             scales.owner());
  return out.clone();
}

// i8 [rows, groups], or packed along the rows.
std::vector<uint8_t> compressed_zeros(const CompressedParts& p) {
  std::vector<uint8_t> out;
  if (!p.zeros) return out;
  const Tensor zeros = plain_tensor(*p.zeros, p.zeros->stored_name);
  const int64_t per_word = 32 / p.bits;
  const bool one = zeros.count() == 1;
  for (int64_t i = 0; i < p.rows * p.groups; ++i) {
    const int64_t row = i / p.groups, group = i % p.groups;
    if (zeros.type() == ElementType::i8) {
      const int zero = zeros.as<int8_t>()[one ? 0 : i] + (1 << (p.bits - 1));
      check(zero >= 0 && zero < 1 << p.bits, ErrorKind::invalid_model,
            "tensor '{}' has a zero point outside of {} bits", escape(p.zeros->stored_name),
            p.bits);
      out.push_back(static_cast<uint8_t>(zero));
    } else {
      const uint32_t word = zeros.as<uint32_t>()[row / per_word * p.groups + group];
      out.push_back(static_cast<uint8_t>(word >> (row % per_word * p.bits) & ((1U << p.bits) - 1)));
    }
  }
  return out;
}

QuantisedMatrix read_compressed(const CompressedParts& p) {
  QuantisedMatrix m;
  m.rows = p.rows;
  m.columns = p.columns;
  m.bits = p.bits;
  m.group = p.columns / p.groups;
  m.g_idx = p.g_idx;
  m.scales = compressed_scales(p);
  m.zeros = compressed_zeros(p);
  const Tensor codes = plain_tensor(p.codes, p.codes.stored_name);
  const bool plain = codes.type() == ElementType::i8;
  const int64_t row_bytes = plain ? p.columns : codes.dims()[1] * 4;
  m.read_rows = [codes, plain, row_bytes, columns = p.columns, bits = p.bits](
                    int64_t first, int64_t count, uint8_t* to) {
    for (int64_t r = 0; r < count; ++r) {
      const uint8_t* from = codes.as<uint8_t>() + (first + r) * row_bytes;
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t bit = i * bits;
        to[r * columns + i] = static_cast<uint8_t>(
            plain ? from[i] ^ 0x80 : from[bit >> 3] >> (bit & 7) & ((1 << bits) - 1));
      }
    }
  };
  return m;
}

// Drops what only quantised activations need.
void drop_activation_parts(Weights& weights, const std::string& stem) {
  for (const char* part : {".input_scale", ".input_zero_point", ".output_scale",
                           ".output_zero_point", ".weight_shape"}) {
    if (weights.has(stem + part)) weights.take(stem + part);
  }
}

void insert_compressed(Weights& weights, const std::string& stem, CompressedParts p) {
  p.scales = weights.take(stem + ".weight_scale");
  const int64_t count = element_count(p.scales.dims);
  p.groups = count == 1 || p.rows == 0 ? 1 : count / p.rows;
  check(p.groups > 0 && (count == 1 || count == p.groups * p.rows) && p.columns % p.groups == 0,
        ErrorKind::invalid_model,
        "tensor '{}' has {} scales, expected 1, or equal groups in each of {} rows",
        escape(stem + ".weight_scale"), count, p.rows);
  check(count == 1 || p.scales.dims[0] == p.rows, ErrorKind::invalid_model,
        "tensor '{}' is [{}], expected {} rows", escape(stem + ".weight_scale"),
        fmt::join(p.scales.dims, ", "), p.rows);
  if (weights.has(stem + ".weight_zero_point")) {
    p.zeros = weights.take(stem + ".weight_zero_point");
    const int64_t zeros = element_count(p.zeros->dims);
    const int64_t packed = (p.rows * p.bits + 31) / 32 * p.groups;
    check((p.zeros->type == "I8" && zeros == count) || (p.zeros->type == "I32" && zeros == packed),
          ErrorKind::invalid_model,
          "tensor '{}' is {} [{}], expected I8 with {} elements or I32 "
          "with {}",
          escape(stem + ".weight_zero_point"), p.zeros->type, fmt::join(p.zeros->dims, ", "), count,
          packed);
  }
  if (weights.has(stem + ".weight_g_idx")) {
    const StoredTensor part = weights.take(stem + ".weight_g_idx");
    check_part(part, stem + ".weight_g_idx", part.type, {p.columns});
    p.g_idx = integers_of(part, stem + ".weight_g_idx");
    if (p.columns > 0 && p.g_idx.front() < 0) p.g_idx.clear();  // not in use
  }
  drop_activation_parts(weights, stem);
  const int64_t rows = p.rows, columns = p.columns;
  const StoredTensor codes = p.codes;
  weights.insert(stem + ".weight",
                 quantised_matrix(codes, "INT", p.bits, rows, columns,
                                  [p = std::move(p)] { return read_compressed(p); }));
}

void join_packed(Weights& weights, const std::string& stem) {
  const std::string name = stem + ".weight_packed";
  CompressedParts p;
  p.codes = weights.take(name);
  const std::vector<int32_t> shape =
      integers_of(weights.get(stem + ".weight_shape"), stem + ".weight_shape");
  check(p.codes.rank() == 2 && shape.size() == 2 && shape[1] > 0, ErrorKind::invalid_model,
        "tensor '{}' has shape [{}] for a matrix of [{}], expected 2 axes", escape(name),
        fmt::join(p.codes.dims, ", "), fmt::join(shape, ", "));
  p.rows = shape[0];
  p.columns = shape[1];
  p.bits = p.codes.dims[1] * 32 >= p.columns * 8 ? 8 : 4;
  check_part(p.codes, name, "I32", {p.rows, (p.columns * p.bits + 31) / 32});
  insert_compressed(weights, stem, std::move(p));
}

void join_plain(Weights& weights, const std::string& stem, int64_t block_rows,
                int64_t block_columns) {
  const StoredTensor& codes = weights.get(stem + ".weight");
  if (is_fp8(codes)) {
    join_fp8_matrix(weights, stem, stem + ".weight_scale", block_rows, block_columns);
    return drop_activation_parts(weights, stem);
  }
  CompressedParts p;
  p.codes = weights.take(stem + ".weight");
  check_part(p.codes, stem + ".weight", "I8", p.codes.dims);
  check(p.codes.rank() == 2, ErrorKind::invalid_model, "tensor '{}.weight' has rank {}, expected 2",
        escape(stem), p.codes.rank());
  p.rows = p.codes.dims[0];
  p.columns = p.codes.dims[1];
  p.bits = 8;
  insert_compressed(weights, stem, std::move(p));
}

void join_compressed(const Config& config, Weights& weights) {
  const std::string format = config.text("format");
  check(std::ranges::find(kFormats, format) != std::end(kFormats), ErrorKind::unsupported,
        "'format' is '{}', supported are {}", escape(format), fmt::join(kFormats, ", "));
  std::vector<int64_t> block = {128, 128};
  const Config groups = config.object("config_groups");
  for (const auto& [name, group] : groups.values().items()) {
    const std::vector<int64_t> own =
        groups.object(name).object("weights").integers("block_structure");
    if (own.size() == 2) block = own;
  }
  for_names_ending(weights, ".weight_packed",
                   [&](const std::string& stem) { join_packed(weights, stem); });
  for_names_ending(weights, ".weight_scale",
                   [&](const std::string& stem) { join_plain(weights, stem, block[0], block[1]); });
}

const RegisterQuantiser kCompressed{
    {"compressed-tensors",
     "`pack-quantized` (4, 8 bits), `int-quantized`, `float-quantized`; activations as for GGUF",
     join_compressed}};

}  // namespace
}  // namespace lathe::checkpoint
