// SPDX-License-Identifier: MIT
// Naive packing of B into panels, and random matrices, for GEMM tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "targets/cpu/kernels/gemm/brgemm.h"
#include "tensor/float_formats.h"

namespace lathe::cpu::test {

// A matrix in the GEMM's element type and as doubles.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t element = 4;  // bytes
  std::vector<char> bytes;
  std::vector<double> values;

  double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
  const char* address(int64_t r, int64_t c) const {
    return bytes.data() + (r * columns + c) * element;
  }
};

// Random A or B: f32 and bf16 in [-1, 1], integers over their whole range.
inline Matrix random_matrix(std::mt19937& random, GemmType type, bool is_a, int64_t rows,
                            int64_t columns) {
  Matrix m{rows, columns, a_size(type), {}, {}};
  m.bytes.resize(static_cast<size_t>(rows * columns * m.element));
  m.values.resize(static_cast<size_t>(rows * columns));
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int> integer(0, 255);
  for (size_t i = 0; i < m.values.size(); ++i) {
    char* p = m.bytes.data() + static_cast<int64_t>(i) * m.element;
    if (type == GemmType::f32) {
      const float x = real(random);
      std::memcpy(p, &x, 4);
      m.values[i] = x;
    } else if (type == GemmType::bf16) {
      const uint16_t x = float_to_bf16(real(random));
      std::memcpy(p, &x, 2);
      m.values[i] = bf16_to_float(x);
    } else {
      const int x = integer(random);
      const bool is_unsigned = is_a && type == GemmType::u8s8;
      *p = static_cast<char>(x);
      m.values[i] = is_unsigned ? x : static_cast<int8_t>(x);
    }
  }
  return m;
}

// Packs rows [first, first + k) of B.
inline std::vector<char> make_panels(const BrgemmKernel& kernel, const Matrix& b, int64_t first,
                                     int64_t k) {
  const int64_t panel = packed_panel_bytes(kernel, k);
  std::vector<char> out(static_cast<size_t>(panel * panel_count(kernel, b.columns)));
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t c = 0; c < b.columns; ++c) {
      const int64_t group = i / kernel.k_group, inside = i % kernel.k_group;
      const int64_t column = c % kernel.panel_columns;
      std::memcpy(out.data() + c / kernel.panel_columns * panel +
                      (group * kernel.panel_columns + column) * 4 + inside * b.element,
                  b.address(first + i, c), static_cast<size_t>(b.element));
    }
  }
  return out;
}

}  // namespace lathe::cpu::test
