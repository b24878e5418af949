// SPDX-License-Identifier: MIT
// b is u8 [n, blocks, block_size · bits / 8]: per column, blocks along k, low bits first. There is
// one scale per block. Zero points are floats, or packed per column, each column from a byte
// boundary.
#include <algorithm>
#include <numeric>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/support/convolution.h"
#include "ops/support/dense_operand.h"
#include "ops/support/matmul.h"
#include "ops/support/n_bits_weights.h"
#include "ops/token_step.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// compute_type f32: dequantises the weights for a float GEMM. bf16: also rounds a to bf16.
class DequantisedGemm final : public BlockedGemm<float> {
 public:
  DequantisedGemm(const NBitsWeights& weights, const MatrixView& a, const MatrixView& y,
                  const DenseOperand& bias, bool rounds)
      : weights_(weights), a_(a), y_(y), bias_(bias), rounds_(rounds) {}
  void load_a(int64_t, const Block& block, float* to, int64_t pitch) const override {
    load_block(a_, block, to, pitch);
    if (rounds_) round_to_bf16(block, to, pitch);
  }
  void load_b(int64_t, const Block& block, float* to, int64_t pitch) const override {
    // Columns are stored, rows are needed: strips of 16 columns, so that both sides stay in cache.
    constexpr int64_t kStrip = 16;
    const ScratchArray<float> values(kStrip * block.rows);
    for (int64_t strip = 0; strip < block.columns; strip += kStrip) {
      const int64_t width = std::min(kStrip, block.columns - strip);
      for (int64_t c = 0; c < width; ++c) {
        weights_.dequantise(block.column + strip + c, block.row, block.rows,
                            values.data() + c * block.rows);
      }
      for (int64_t r = 0; r < block.rows; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          to[r * pitch + strip + c] = values[static_cast<size_t>(c * block.rows + r)];
        }
      }
    }
  }
  void store(int64_t, const Block& block, const float* from, int64_t pitch) const override {
    std::array<float, kGemmColumns> row;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t c = 0; c < block.columns; ++c) {
        const float more = bias_.data() == nullptr ? 0 : bias_.as<float>()[block.column + c];
        row[static_cast<size_t>(c)] = from[r * pitch + c] + more;
      }
      store_block(y_, {block.row + r, 1, block.column, block.columns}, row.data(), pitch);
    }
  }

 private:
  const NBitsWeights& weights_;
  MatrixView a_;
  MatrixView y_;
  const DenseOperand& bias_;
  bool rounds_;
};

// Quantises rows of a to 8 bits: per block s = max|a| / 127 and q = round(a · (127 / max|a|)).
struct QuantisedRows {
  ScratchArray<int16_t> codes;  // [m, blocks · block], zero beyond k
  ScratchArray<float> scales;   // [m, blocks]
};

QuantisedRows quantise_rows(const MatrixView& a, int64_t m, int64_t k,
                            const NBitsWeights& weights) {
  QuantisedRows rows;
  const int64_t width = weights.blocks * weights.block;
  rows.codes = ScratchArray<int16_t>(m * width);
  std::ranges::fill(rows.codes, int16_t{0});
  rows.scales = ScratchArray<float>(m * weights.blocks);
  const ScratchArray<float> row(width);
  std::ranges::fill(row, 0.0F);
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

// compute_type int8: per block an exact integer dot product times both scales, rounded once when
// added; blocks in order of k. Zero points that are floats: the dot product of the codes, less the
// zero point times the sum of a's codes, rounded once.
void multiply_integers(Evaluation& c, const NBitsWeights& weights, const MatrixView& a,
                       const MatrixView& y, int64_t m, int64_t n, int64_t k,
                       const DenseOperand& bias) {
  const QuantisedRows rows = quantise_rows(a, m, k, weights);
  const int64_t width = weights.blocks * weights.block;
  parallel_for(c.pool, n, 16, [&](int64_t begin, int64_t end) {
    const ScratchArray<int16_t> column(width);
    for (int64_t j = begin; j < end; ++j) {
      for (int64_t at = 0; at < weights.blocks; ++at) {
        const int zero = weights.has_float_zeros() ? 0 : weights.integer_zero(j, at);
        int16_t* to = column.data() + at * weights.block;
        weights.for_codes(j, at * weights.block, weights.block,
                          [&](int64_t i, int code) { to[i] = static_cast<int16_t>(code - zero); });
      }
      for (int64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (int64_t at = 0; at < weights.blocks; ++at) {
          const int16_t* left = rows.codes.data() + i * width + at * weights.block;
          const int16_t* right = column.data() + at * weights.block;
          int32_t exact = 0;
          for (int64_t d = 0; d < weights.block; ++d) exact += left[d] * right[d];
          auto value = static_cast<float>(exact);
          if (weights.has_float_zeros()) {
            const int32_t codes = std::accumulate(left, left + weights.block, int32_t{0});
            value = std::fma(static_cast<float>(-codes), weights.zero(j, at), value);
          }
          const float scale = rows.scales[static_cast<size_t>(i * weights.blocks + at)];
          sum = std::fma(value, scale * weights.scale(j, at), sum);
        }
        if (bias.data() != nullptr) sum += bias.as<float>()[j];
        store_block(y, {i, 1, j, 1}, &sum, 0);
      }
    }
  });
}

void infer_matmul_n_bits(Infer& c) {
  infer_n_bits_weights(c);
  const int64_t k = c.integer("k");
  const int64_t n = c.integer("n");
  c.check(c.rank(0) >= 1, "a has rank {}, expected at least 1", c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  c.require_equal(dims.back(), k, "columns of a and attribute k");
  const std::string& compute = c.text("compute_type");
  c.check(compute == "f32" || compute == "bf16" || compute == "int8",
          "compute_type is '{}', expected f32, bf16 or int8", escape(compute));
  c.check(compute != "int8" || !c.has(4), "compute_type {} does not support g_idx", compute);
  if (c.has(5)) c.require_equal(element_count(c.dims(5)), n, "bias and n");
  dims.back() = n;
  c.result(c.element(0), std::move(dims));
}

void evaluate_matmul_n_bits(Evaluation& c) {
  const int64_t k = c.integer("k");
  const int64_t n = c.integer("n");
  const NBitsWeights weights(c, k, n);
  const DenseOperand bias = c.has(5) ? DenseOperand(c.in(5), ElementType::f32) : DenseOperand();
  const DenseOperand left(c.in(0));
  const int64_t m = left.count() / k;
  const MatrixView a{left.type(), left.data(), 0, k, 1};
  with_dense_result(c, [&](const TensorView& result) {
    const MatrixView y{result.type, result.data, 0, n, 1};
    if (c.text("compute_type") == "int8") {
      multiply_integers(c, weights, a, y, m, n, k, bias);
      return;
    }
    DequantisedGemm product(weights, a, y, bias, c.text("compute_type") == "bf16");
    product.m = m;
    product.n = n;
    product.k = k;
    product.run(c.pool);
  });
}

}  // namespace

static const Register matmul_n_bits{{
    .name = "matmul_n_bits",
    .doc =
        "a times weights of 2, 4 or 8 bits with scales per block; a is f32, bf16 or quantised to 8 "
        "bits.",
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
    .tokens = matmul_tokens,
}};

}  // namespace lathe
