// SPDX-License-Identifier: MIT
// Weights of matmul_n_bits: u8 [n, blocks, block_size · bits / 8], per column blocks along k, low
// bits first. There is one scale per block. Zero points are floats, or packed per column, each
// column from a byte boundary.
#pragma once

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/dense_operand.h"
#include "ops/support/indices.h"

namespace lathe {

// Checks the attributes k, n, bits and block_size, and operand 1.
inline void infer_n_bits_weights(Infer& c) {
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
}

// Operands 1 to 4 of an instruction: codes, scales, zero points and the group of each element along
// k.
class NBitsWeights {
 public:
  NBitsWeights(const Evaluation& c, int64_t k, int64_t n)
      : bits(c.integer("bits")),
        block(c.integer("block_size")),
        blocks((k + block - 1) / block),
        codes_(c.in(1)),
        scales_(c.in(2), ElementType::f32) {
    c.check(scales_.count() == n * blocks, "got {} scales for {} blocks", scales_.count(),
            n * blocks);
    if (c.has(3)) {
      const int64_t bytes = (blocks * bits + 7) / 8;
      const bool packed = c.in(3).type == ElementType::u8;
      c.check(c.in(3).count() == n * (packed ? bytes : blocks), "got {} zero points for {} blocks",
              c.in(3).count(), n * blocks);
      if (packed) {
        zero_codes_ = DenseOperand(c.in(3));
        zero_pitch_ = bytes;
      } else {
        zeros_ = DenseOperand(c.in(3), ElementType::f32);
      }
    }
    if (c.has(4)) {
      groups_ = ScratchArray<int64_t>(c.in(4).count());
      load_values(c, 4, 0, groups_);
      c.check(static_cast<int64_t>(groups_.size()) == k, "got {} group indices for k = {}",
              groups_.size(), k);
      for (const int64_t group : groups_) {
        c.check(group >= 0 && group < blocks, "group index {} is out of range for {} blocks", group,
                blocks);
      }
    }
  }

  float scale(int64_t n, int64_t at) const { return scales_.as<float>()[n * blocks + at]; }
  int integer_zero(int64_t n, int64_t at) const {
    if (zero_pitch_ == 0) return 1 << (bits - 1);
    const uint8_t byte = zero_codes_.as<uint8_t>()[n * zero_pitch_ + at * bits / 8];
    return byte >> (at * bits % 8) & ((1 << bits) - 1);
  }
  bool has_float_zeros() const { return zeros_.data() != nullptr; }
  float zero(int64_t n, int64_t at) const {
    return zeros_.data() == nullptr ? static_cast<float>(integer_zero(n, at))
                                    : zeros_.as<float>()[n * blocks + at];
  }

  // Calls f(i, code) for `count` codes of column n from k on.
  template <class F>
  void for_codes(int64_t n, int64_t k, int64_t count, F&& f) const {
    const uint8_t* column = codes_.as<uint8_t>() + n * blocks * block * bits / 8;
    if (bits == 2) return unpack<2>(column, k, count, f);
    if (bits == 4) return unpack<4>(column, k, count, f);
    unpack<8>(column, k, count, f);
  }

  // (code - zero) · scale of `count` elements of column n from k on.
  void dequantise(int64_t n, int64_t k, int64_t count, float* to) const {
    if (!groups_.empty()) {
      for_codes(n, k, count, [&](int64_t i, int code) {
        const int64_t at = groups_[static_cast<size_t>(k + i)];
        to[i] = (static_cast<float>(code) - zero(n, at)) * scale(n, at);
      });
      return;
    }
    for (int64_t done = 0; done < count;) {
      const int64_t at = (k + done) / block;
      const int64_t run = std::min(count - done, (at + 1) * block - (k + done));
      const float offset = zero(n, at);
      const float factor = scale(n, at);
      for_codes(n, k + done, run, [&, out = to + done](int64_t i, int code) {
        out[i] = (static_cast<float>(code) - offset) * factor;
      });
      done += run;
    }
  }

  const int64_t bits;
  const int64_t block;
  const int64_t blocks;

 private:
  template <int Bits, class F>
  static void unpack(const uint8_t* column, int64_t k, int64_t count, F& f) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bit = (k + i) * Bits;
      f(i, column[bit >> 3] >> (bit & 7) & ((1 << Bits) - 1));
    }
  }
  DenseOperand codes_;
  DenseOperand scales_;
  DenseOperand zero_codes_;
  int64_t zero_pitch_ = 0;
  DenseOperand zeros_;
  ScratchArray<int64_t> groups_;
};

}  // namespace lathe
