// SPDX-License-Identifier: MIT
// Random attention problems with operands in guarded memory, and their naive reference.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "targets/cpu/kernels/attention/attention.h"
#include "tests/kernels/support/guarded.h"

namespace lathe::cpu::test {

enum class Extent {
  small,   // often one block of keys
  middle,  // up to three blocks
  large,   // several blocks, more queries
};

class AttentionCase {
 public:
  AttentionCase(uint32_t seed, Extent extent);

  AttentionProblem problem;
  int64_t batch = 1;
  int64_t queries = 1;
  int64_t keys = 1;  // capacity of the KV cache
  std::vector<int64_t> first;
  std::vector<int64_t> length;
  std::unique_ptr<Guarded> y;

  // Stores the KV cache in pages of 2^shift keys, or contiguously (-1).
  void lay_out(int shift);
  int page() const { return shift_; }
  AttentionArguments arguments();
  // Returns the first element of y beyond the error bound or written between rows, or "".
  std::string difference(bool use_bf16);
  void clear_result();

 private:
  int64_t pick(int64_t low, int64_t high);  // inclusive
  bool chance(int percent) { return pick(0, 99) < percent; }
  double normal();
  std::vector<double> values(ElementType type, int64_t count, double spread);
  AttentionCache place(const std::vector<double>& from, const std::vector<float>& scales,
                       int64_t size, std::unique_ptr<Guarded>& to,
                       std::vector<float>& placed_scales, std::vector<const std::byte*>& pages);
  void make_bias();
  double bias_at(int64_t b, int64_t h, int64_t i, int64_t key) const;
  std::vector<double> row(int64_t b, int64_t h, int64_t i) const;
  const std::vector<double>& expected();

  std::mt19937 random_;
  int shift_ = -1;
  int64_t y_pitch_ = 0;
  AttentionRows q_rows_;
  AttentionBias bias_;
  std::unique_ptr<Guarded> q_;
  std::unique_ptr<Guarded> k_memory_, v_memory_, bias_memory_;
  std::vector<double> k_, v_;  // [batch][key heads][keys][size], without scales
  std::vector<float> k_scales_, v_scales_, k_placed_, v_placed_;  // [batch][key heads][keys]
  std::vector<int32_t> table_;
  std::vector<const std::byte*> k_pages_, v_pages_;
  int64_t table_stride_ = 0;
  AttentionCache k_cache_, v_cache_;
  std::vector<float> sinks_;
  std::vector<double> q_values_;
  std::vector<int64_t> expected_first_, expected_length_;  // arguments of expected_
  std::vector<double> expected_;                           // [batch][queries][heads][value size]
};

}  // namespace lathe::cpu::test
