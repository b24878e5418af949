// SPDX-License-Identifier: MIT
// The shape of kernels/few_rows.gpu for a product of a few rows.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace lathe::gpu {

struct FewRows {
  int64_t rows = 1;
  int64_t threads = 256;  // of a block
  int64_t columns = 1;    // of a group of threads, of each product
  int64_t load = 16;      // bytes of weights that a thread loads at once
  int64_t per = 0;        // elements of them
  int64_t piece = 0;      // of activations, 16 bytes
  int64_t stage = 1;      // tiles of the depth in shared memory at once
  int64_t turns = 1;      // groups of columns that a group of threads takes in turns
  int64_t kept = 0;       // pieces of a normalised row that a thread has in registers
  bool whole = false;  // rows lie as `lies_whole` states, and so do factors of their normalisation
  bool quantised = false;  // kernels/n_bits_row.gpu quantises the row; it takes what follows
  int64_t ahead = 1;       // tiles whose weights are loaded before they are needed
  bool even = false;       // no tile ends beyond the depth
  int64_t planes = 1;      // bytes of a quantised element

  std::string text() const;  // before the kernel's, with few_rows.gpu
  std::array<uint32_t, 3> grid(int64_t m, int64_t n) const;
};

struct FewRowsProblem {
  int64_t n = 0;
  int64_t depth = 0;
  int64_t bits = 0;      // of a weight
  int64_t piece = 0;     // activations of 16 bytes
  int64_t ahead = 1;     // tiles that are loaded together at most: a divisor of the stage
  int64_t products = 1;  // of the rows, one or two
  int64_t block = 0;     // weights that lie together at least: a thread's belong to one; 0: all
  int64_t planes = 0;    // bytes to which elements are quantised, in each block; 0: they are not
  int64_t norm_threads = 0;  // sums of a row's normalisation (normalization.h); 0: none
};
FewRows few_rows(int64_t rows, const FewRowsProblem& problem, int64_t multiprocessors);

// True where pieces of 8 elements can be loaded at once.
bool lies_whole(const void* data, int64_t stride, int64_t depth);

// Rows that one launch takes at once, where there are several.
inline constexpr int64_t kManyRows = 8;

}  // namespace lathe::gpu
