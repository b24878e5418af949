// SPDX-License-Identifier: MIT
// Epilogue of a convolution in the form of the GEMM kernels: per image, with a stride between
// outputs, for channels-last or channels-first tiles.
#pragma once

#include <array>
#include <new>
#include <vector>

#include "base/thread_scratch.h"
#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {

// Compensation from accumulators of stored x and w to (x - x zero) (w - w zero).
struct IntegerTerms {
  std::vector<int32_t> column_compensation;  // per output channel
  bool adds = false;                         // any of them is not 0
  std::vector<int32_t>
      negated_column_compensation;       // for channels-first tiles, whose rows are output channels
  const int32_t* weight_zero = nullptr;  // per output channel; null: all 0
};
// `column_sums`: added weights per output; `depth`: terms per accumulator; `shift`: added to
// each x by the kernel.
IntegerTerms integer_terms(const ConvCall& call, int64_t outputs, int64_t depth, int shift,
                           const int32_t* column_sums, const int32_t* weight_zero);

class ConvEpilogue {
 public:
  // Image n. Tile rows are positions first, first + stride, …, tile columns are output channels;
  // swapped if `channels_first`.
  ConvEpilogue(const ConvCall& call, const IntegerTerms* terms, int64_t n, bool channels_first);
  ConvEpilogue(const ConvEpilogue&) = delete;
  ConvEpilogue& operator=(const ConvEpilogue&) = delete;
  void place(int64_t first, int64_t stride);
  // Per position, the sum of x under the window. Required if a weight zero point is not 0.
  void window_sums(const int32_t* sums);

  const Epilogue& get() const { return epilogue_; }

 private:
  void simplify_again();
  const Epilogue& original_;
  bool channels_first_;
  const IntegerTerms* terms_;
  ScratchArray<EpilogueStep> image_;  // this image's steps, from position 0
  ScratchArray<EpilogueStep> steps_;
  std::array<OuterCompensation, 2> outer_;
  Epilogue epilogue_;
  SimpleEpilogue simple_;
};

// Epilogues of consecutive images, in the thread's scratch.
class ConvEpilogues {
 public:
  explicit ConvEpilogues(int64_t most) : memory_(most) {}
  ~ConvEpilogues() {
    for (size_t i = 0; i < count_; ++i) memory_[i].~ConvEpilogue();
  }
  ConvEpilogues(const ConvEpilogues&) = delete;
  ConvEpilogues& operator=(const ConvEpilogues&) = delete;
  void add(const ConvCall& call, const IntegerTerms* terms, int64_t n) {
    new (memory_.data() + count_) ConvEpilogue(call, terms, n, false);
    ++count_;
  }
  const ConvEpilogue& operator[](size_t i) const { return memory_[i]; }

 private:
  ScratchArray<ConvEpilogue> memory_;
  size_t count_ = 0;
};

}  // namespace lathe::cpu
