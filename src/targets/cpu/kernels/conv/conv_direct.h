// SPDX-License-Identifier: MIT
// Convolution as a batch-reduce GEMM: an output row supplies the GEMM rows, the taps of a kernel
// row are the blocks; contiguous taps form one block. x is read in place. Taps that read padding
// are skipped, so outputs at image edges are separate GEMMs. If padding is not zero or too many
// outputs are at edges, x is copied with its padding. If output rows are too short for register
// tiles, x is copied by im2col: one matrix row per output. Pointwise convolutions with cache-set
// conflicts use im2col as well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "targets/cpu/kernels/conv/conv_epilogue.h"
#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/conv/padded_input.h"
#include "targets/cpu/kernels/gemm/brgemm.h"

namespace lathe::cpu {

std::string why_not_direct(const ConvProblem& problem, Isa isa);

class DirectConvolution final : public Convolution {
 public:
  DirectConvolution(const ConvProblem& problem, Isa isa);
  std::string packing_id() const override;
  size_t packed_bytes() const override;
  void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const override;
  void run(const ConvCall& call) const override;

  // For fused kernels: pointwise problems with one group.
  int64_t panel_columns() const { return kernel_->panel_columns; }
  int64_t panels_per_group() const { return group_panels(); }
  IntegerTerms pointwise_terms(const ConvCall& call) const;  // empty for f32 accumulators
  // Computes the pointwise convolution of contiguous rows of x at `a`, starting at `position`, into
  // `out`.
  struct PointwiseRows {
    const void* a = nullptr;
    int64_t position = 0, rows = 0;
    int64_t panel = 0, panels = 0;
    void* out = nullptr;
    int64_t out_stride = 0;
    // See BrgemmCall.
    bool a_is_cold = false, b_is_cold = false, b_continues = false, out_is_cached = false;
    const void* prefetch_data = nullptr;
    int64_t prefetch_bytes = 0;
  };
  void pointwise_rows(const ConvCall& call, const ConvEpilogue& epilogue,
                      const PointwiseRows& at) const;

 private:
  static constexpr int64_t kMinOutputs = 4;  // fewer leave most of a tile unused

  // Position that output 0 reads on each axis, and the taps that it multiplies.
  struct Block {
    std::array<int64_t, kConvAxes> offset{};
    std::vector<int64_t> taps;  // kernel taps in memory order
  };
  // Adjacent outputs whose windows have the same taps inside the image.
  struct Segment {
    int64_t begin = 0, count = 0;
    ConvTaps taps;  // along the width
  };
  struct Part {
    ConvPart geometry;
    std::vector<Block> blocks;
    bool contiguous_taps = false;   // a block holds all taps along the width
    std::vector<Segment> segments;  // longest first
    int64_t k = 0;                  // elements of a block
    size_t packed = 0;              // offset of its panels
  };
  // Outputs of one part: begin to begin + extent of each axis; panels per group.
  struct Chunk {
    size_t part = 0;
    std::array<int64_t, kConvAxes> begin{};
    std::array<int64_t, kConvAxes> extent{};
    int64_t panel = 0;
    int64_t panels = 0;
  };
  // Calls f for the columns of outputs that share their taps with too few others in the row.
  template <class F>
  static void each_column(const Part& part, const Chunk& chunk, F&& f) {
    const int64_t begin = chunk.begin[2], end = begin + chunk.extent[2];
    for (const Segment& s : part.segments) {
      const int64_t first = std::max(begin, s.begin), last = std::min(end, s.begin + s.count);
      for (int64_t w = first; last - first < kMinOutputs && w < last; ++w) f(w);
    }
  }
  // Memory that a chunk reads; pitches in elements.
  struct Source {
    const std::byte* x = nullptr;  // position 0 of the box
    std::array<int64_t, kConvAxes> origin{};
    std::array<int64_t, kConvAxes> pitch{};
  };
  class Run;

  struct Joined {};
  DirectConvolution(const ConvProblem& problem, Isa isa, Joined);
  DirectConvolution(const ConvProblem& problem, Isa isa, bool pads_with_zeros);
  bool has_tiles() const { return isa_ == Isa::amx && type_ != GemmType::f32; }
  bool gains_by_skipping() const;
  void im2col_positions();
  void scaled_rows(const void* x, const float* factors, std::byte* to, int64_t begin,
                   int64_t end) const;
  void im2col_rows(const void* x, std::byte* to, int64_t begin, int64_t end, int padding) const;
  void add_part(const ConvPart& part);
  void add_chunks(size_t part);
  void pack_panel(const ConvWeights& weights, const Part& part, int64_t group, int64_t panel,
                  std::byte* to) const;
  void pack_sums(const ConvWeights& weights, std::byte* to) const;
  int64_t panel_stride(const Part& part) const;
  int64_t tile_panels(const Part& part) const;
  int64_t sums_bytes() const { return (p_.outputs * 4 + 63) / 64 * 64; }
  int64_t group_panels() const { return panel_count(*kernel_, p_.group_outputs()); }
  const std::byte* panels(const std::byte* packed, const Part& part, int64_t group,
                          int64_t panel) const;
  int64_t elements_read(const Part& part) const;
  ConvBox box(const Part& part, const Chunk& chunk) const;
  bool pads_columns(const Part& part, const Chunk& chunk) const;
  ConvBox column_box(const Part& part, const Chunk& chunk, int64_t w) const;
  int64_t box_bytes(const ConvBox& box) const {
    return (box.positions() * p_.channels * padded_.element_bytes + 63) / 64 * 64;
  }
  void flip_signs();
  int padding(const ConvCall& call) const;
  // Kernel for input that is read in place; shares the packing.
  const BrgemmKernel& in_place_kernel() const {
    return flips_ ? brgemm_kernel(isa_, GemmType::s8s8) : *kernel_;
  }
  bool reads_in_place() const;
  bool joins_images(const ConvCall& call) const;
  // Bytes of an image of x.
  int64_t image_bytes() const {
    return original_.input_positions() * original_.channels * padded_.element_bytes;
  }
  bool has_large_weights() const { return panel_bytes_ > kSharedWeights; }
  void find_padded_box();
  bool pads_by_chunk() const;
  void make_flat();
  void copy_padded_rows(const void* x, std::byte* to, int64_t begin, int64_t end,
                        int padding) const;
  void run_prepared(const ConvCall& call) const;

  ConvProblem original_;
  ConvProblem p_;  // the problem that the GEMMs compute: a single row after im2col
  Isa isa_;
  bool im2col_ = false;
  ConvPartAxis original_height_;  // height axis before im2col
  // Each chunk runs im2col on its own rows, kIm2colRows at a time.
  bool im2col_chunks_ = false;
  static constexpr int64_t kIm2colRows = 448;
  // Base address for tensors without elements.
  static constexpr std::byte kNothing{};
  static constexpr int64_t kWeightsInCache = 512 << 10;  // bytes of panels in L2 beside x
  static constexpr size_t kSharedWeights = 384 << 10;    // bytes that every thread may read
  static constexpr int64_t kMostPrepared = 16 << 20;     // bytes of images prepared together
  static constexpr int64_t kReadPastEnd = 64;  // bytes that kernels may read past the copy
  // Copied i8 input becomes u8 in the copy, which saves the kernel the conversion.
  bool flips_ = false;
  GemmType type_;
  const BrgemmKernel* kernel_;
  int shift_ = 0;  // added to each x, by the kernel or by the copy
  PaddedInput padded_;
  bool in_place_ = false;
  bool skips_padding_ = false;  // reads x in place and skips taps in the padding
  // Variant that skips padding, with the same packing: for int8 calls whose padding is zero.
  std::unique_ptr<const DirectConvolution> for_zeros_;
  // If the images are one row of positions: the variant for epilogues in which they differ.
  std::unique_ptr<const DirectConvolution> by_image_;
  int64_t image_positions_ = 0;  // of one image then
  bool pads_image_ = false;
  ConvBox padded_box_;
  // AMX tiles span several output rows, including the padding between them, which is not stored. In
  // the copy, the rows of one stride phase are contiguous.
  bool flat_ = false;
  int64_t phase_rows_ = 0;
  bool through_sums_ = false;  // y is channels-first: accumulators are transposed in memory
  std::vector<Part> parts_;
  std::vector<Chunk> chunks_;                                     // of one image
  size_t panel_bytes_ = 0;                                        // of all parts
  size_t scratch_box_ = 0, scratch_sums_ = 0, scratch_rows_ = 0;  // bytes of the largest chunk
};

}  // namespace lathe::cpu
