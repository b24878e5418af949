// SPDX-License-Identifier: MIT
// A convolution's epilogue as the kernels take it: for one image, one step between outputs, and
// either orientation of the tile.
#pragma once

#include <vector>

#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {

// What turns a sum of x and w as stored into one of (x - x zero) (w - w zero).
struct IntegerTerms {
  std::vector<int32_t> column_compensation;          // per output
  bool adds = false;                                 // some of them
  std::vector<int32_t> negated_column_compensation;  // for tiles whose rows are outputs
  const int32_t* weight_zero = nullptr;              // per output; null: all 0
};
// `column_sums` are those of the weights, `depth` the products of a sum, `shift` what the kernel
// adds to each x.
IntegerTerms integer_terms(const ConvCall& call, int64_t outputs, int64_t depth, int shift,
                           const int32_t* column_sums, const int32_t* weight_zero);

class ConvEpilogue {
 public:
  // Image n; rows are positions first, first + stride, …, columns are outputs; or, if `turned`,
  // the other way round.
  ConvEpilogue(const ConvCall& call, const IntegerTerms* terms, int64_t n, bool turned);
  ConvEpilogue(const ConvEpilogue&) = delete;
  ConvEpilogue& operator=(const ConvEpilogue&) = delete;
  void place(int64_t first, int64_t stride);
  // Per position, the sum of x under the window: needed where a weight's zero is not 0.
  void window_sums(const int32_t* sums);

  const Epilogue& get() const { return epilogue_; }

 private:
  void simplify_again();
  const Epilogue& given_;
  bool turned_;
  const IntegerTerms* terms_;
  std::vector<EpilogueStep> image_;  // of this image, rows from 0 on
  std::vector<EpilogueStep> steps_;
  std::vector<OuterCompensation> outer_;
  Epilogue epilogue_;
  SimpleEpilogue simple_;
};

}  // namespace lathe::cpu
