// SPDX-License-Identifier: MIT
// b is u8 [n, blocks, block_size · bits / 8]: per column, blocks along k, low bits first. Scales
// are one per block; zero points are packed per column, each column beginning at a byte, or floats.
#include "base/thread_pool.h"
#include "ops/convolution.h"
#include "ops/matmul.h"
#include "ops/quantization.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

class Weights {
 public:
  Weights(const Evaluation& c, int64_t k, int64_t n)
      : bits(c.integer("bits")),
        block(c.integer("block_size")),
        blocks((k + block - 1) / block),
        codes_(dense_tensor(c.in(1))),
        scales_(float_values(c.in(2))) {
    c.check(static_cast<int64_t>(scales_.size()) == n * blocks, "{} scales for {} blocks",
            scales_.size(), n * blocks);
    if (c.has(3)) {
      const int64_t bytes = (blocks * bits + 7) / 8;
      const bool packed = c.in(3).type == ElementType::u8;
      c.check(c.in(3).count() == n * (packed ? bytes : blocks), "{} zero points for {} blocks",
              c.in(3).count(), n * blocks);
      if (packed) {
        zero_codes_ = dense_tensor(c.in(3));
        zero_pitch_ = bytes;
      } else {
        zeros_ = float_values(c.in(3));
      }
    }
    if (c.has(4)) {
      groups_ = c.values(4);
      c.check(static_cast<int64_t>(groups_.size()) == k, "{} group indices for k {}",
              groups_.size(), k);
      for (const int64_t group : groups_) {
        c.check(group >= 0 && group < blocks, "group index {} of {} blocks", group, blocks);
      }
    }
  }

  float scale(int64_t n, int64_t at) const { return scales_[static_cast<size_t>(n * blocks + at)]; }
  bool integer_zeros() const { return zeros_.empty(); }
  int integer_zero(int64_t n, int64_t at) const {
    if (zero_pitch_ == 0) return 1 << (bits - 1);
    return code(zero_codes_.as<uint8_t>() + n * zero_pitch_, at);
  }
  float zero(int64_t n, int64_t at) const {
    return zeros_.empty() ? static_cast<float>(integer_zero(n, at))
                          : zeros_[static_cast<size_t>(n * blocks + at)];
  }
  int quantised(int64_t n, int64_t k) const {
    return code(codes_.as<uint8_t>() + n * blocks * block * bits / 8, k);
  }
  float value(int64_t n, int64_t k) const {
    const int64_t at = groups_.empty() ? k / block : groups_[static_cast<size_t>(k)];
    return (static_cast<float>(quantised(n, k)) - zero(n, at)) * scale(n, at);
  }

  const int64_t bits;
  const int64_t block;
  const int64_t blocks;

 private:
  int code(const uint8_t* row, int64_t at) const {
    return row[at * bits / 8] >> (at * bits % 8) & ((1 << bits) - 1);
  }
  Tensor codes_;
  std::vector<float> scales_;
  Tensor zero_codes_;
  int64_t zero_pitch_ = 0;
  std::vector<float> zeros_;
  std::vector<int64_t> groups_;
};

// compute_type f32: the weights are dequantised, the sum is that of a matrix product.
class DequantisedProduct final : public Product<float> {
 public:
  DequantisedProduct(const Weights& weights, const MatrixView& a, const MatrixView& y,
                     const std::vector<float>& bias)
      : weights_(weights), a_(a), y_(y), bias_(bias) {}
  void load_a(int64_t, const Block& block, float* to, int64_t pitch) const override {
    load_block(a_, block, to, pitch);
  }
  void load_b(int64_t, const Block& block, float* to, int64_t pitch) const override {
    for (int64_t c = 0; c < block.columns; ++c) {
      for (int64_t r = 0; r < block.rows; ++r) {
        to[r * pitch + c] = weights_.value(block.column + c, block.row + r);
      }
    }
  }
  void store(int64_t, const Block& block, const float* from, int64_t pitch) const override {
    std::array<float, kProductColumns> row;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t c = 0; c < block.columns; ++c) {
        const auto column = static_cast<size_t>(block.column + c);
        row[static_cast<size_t>(c)] = from[r * pitch + c] + (bias_.empty() ? 0 : bias_[column]);
      }
      store_block(y_, {block.row + r, 1, block.column, block.columns}, row.data(), pitch);
    }
  }

 private:
  const Weights& weights_;
  MatrixView a_;
  MatrixView y_;
  const std::vector<float>& bias_;
};

// Rows of a in 8 bits: per block s = max|a| / 127 and q = round(a · (127 / max|a|)).
struct QuantisedRows {
  std::vector<int16_t> codes;  // [m, blocks · block], zero behind k
  std::vector<float> scales;   // [m, blocks]
};

QuantisedRows quantise_rows(const MatrixView& a, int64_t m, int64_t k, const Weights& weights) {
  QuantisedRows rows;
  const int64_t width = weights.blocks * weights.block;
  rows.codes.resize(static_cast<size_t>(m * width));
  rows.scales.resize(static_cast<size_t>(m * weights.blocks));
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t i = 0; i < m; ++i) {
    load_block(a, {i, 1, 0, k}, row.data(), 0);
    for (int64_t at = 0; at < weights.blocks; ++at) {
      const float* from = row.data() + at * weights.block;
      float largest = 0;
      for (int64_t j = 0; j < weights.block; ++j) largest = std::max(largest, std::abs(from[j]));
      rows.scales[static_cast<size_t>(i * weights.blocks + at)] = largest / 127;
      if (largest == 0) continue;
      const float factor = 127 / largest;
      int16_t* to = rows.codes.data() + i * width + at * weights.block;
      for (int64_t j = 0; j < weights.block; ++j) {
        to[j] = static_cast<int16_t>(std::clamp(std::nearbyint(from[j] * factor), -127.0F, 127.0F));
      }
    }
  }
  return rows;
}

// compute_type int8: per block an exact integer sum times both scales, blocks added in order of k.
void multiply_integers(Evaluation& c, const Weights& weights, const MatrixView& a,
                       const MatrixView& y, int64_t m, int64_t n, int64_t k,
                       const std::vector<float>& bias) {
  const QuantisedRows rows = quantise_rows(a, m, k, weights);
  const int64_t width = weights.blocks * weights.block;
  parallel_for(c.pool, n, 16, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> column(static_cast<size_t>(width));
    for (int64_t j = begin; j < end; ++j) {
      for (int64_t at = 0; at < weights.blocks; ++at) {
        const int zero = weights.integer_zero(j, at);
        for (int64_t i = at * weights.block; i < (at + 1) * weights.block; ++i) {
          column[static_cast<size_t>(i)] = static_cast<int16_t>(weights.quantised(j, i) - zero);
        }
      }
      for (int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (int64_t at = 0; at < weights.blocks; ++at) {
          const int16_t* left = rows.codes.data() + i * width + at * weights.block;
          const int16_t* right = column.data() + at * weights.block;
          int32_t exact = 0;
          for (int64_t d = 0; d < weights.block; ++d) exact += left[d] * right[d];
          const float scale = rows.scales[static_cast<size_t>(i * weights.blocks + at)];
          sum += static_cast<float>(exact) * (scale * weights.scale(j, at));
        }
        if (!bias.empty()) sum += bias[static_cast<size_t>(j)];
        store_block(y, {i, 1, j, 1}, &sum, 0);
      }
    }
  });
}

void infer_matmul_n_bits(Infer& c) {
  const int64_t k = c.integer("k");
  const int64_t n = c.integer("n");
  const int64_t bits = c.integer("bits");
  const int64_t block = c.integer("block_size");
  c.check(
      k > 0 && n > 0 && (bits == 2 || bits == 4 || bits == 8) && block >= 16 &&
          block <= (int64_t{1} << 20) && (block & (block - 1)) == 0,
      "k {}, n {}, bits {} and block_size {}: expected positive ones, 2, 4 or 8 bits, and a power "
      "of two of at least 16",
      k, n, bits, block);
  const Dim bytes = Dim(n) * Dim::ceil_div(k, block) * (block * bits / 8);
  c.require_equal(element_count(c.dims(1)), bytes, "bytes of b");
  c.check(c.rank(0) >= 1, "a has rank {}, expected at least 1", c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  c.require_equal(dims.back(), k, "columns of a and k");
  const std::string& compute = c.text("compute_type");
  c.check(compute == "f32" || compute == "int8", "compute_type is '{}', expected f32 or int8",
          escape(compute));
  c.check(compute == "f32" || (!c.has(4) && !(c.has(3) && c.element(3) != ElementType::u8)),
          "compute_type {} needs packed zero points and no g_idx", compute);
  if (c.has(5)) c.require_equal(element_count(c.dims(5)), n, "bias and n");
  dims.back() = n;
  c.result(c.element(0), std::move(dims));
}

void evaluate_matmul_n_bits(Evaluation& c) {
  const int64_t k = c.integer("k");
  const int64_t n = c.integer("n");
  const Weights weights(c, k, n);
  const std::vector<float> bias = c.has(5) ? float_values(c.in(5)) : std::vector<float>{};
  const Tensor left = dense_tensor(c.in(0));
  const int64_t m = left.count() / k;
  const MatrixView a{left.type(), left.data(), 0, k, 1};
  with_dense_result(c, [&](const TensorView& result) {
    const MatrixView y{result.type, result.data, 0, n, 1};
    if (c.text("compute_type") == "int8") {
      multiply_integers(c, weights, a, y, m, n, k, bias);
      return;
    }
    DequantisedProduct product(weights, a, y, bias);
    product.m = m;
    product.n = n;
    product.k = k;
    product.run(c.pool);
  });
}

}  // namespace

static const Register matmul_n_bits{{
    .name = "matmul_n_bits",
    .doc = "a times weights of 2, 4 or 8 bits with scales per block, in f32 or with a in 8 bits.",
    .operands = {{"a", kFloats},
                 {"b", types(ElementType::u8)},
                 {"scales", kFloats},
                 {"zero_points", kFloats | types(ElementType::u8), Arity::optional},
                 {"g_idx", kIndices, Arity::optional},
                 {"bias", kFloats, Arity::optional}},
    .attributes = {{"k", AttributeKind::integer},
                   {"n", AttributeKind::integer},
                   {"bits", 4},
                   {"block_size", AttributeKind::integer},
                   {"compute_type", "f32"}},
    .infer = infer_matmul_n_bits,
    .eval = evaluate_matmul_n_bits,
}};

}  // namespace lathe
