// SPDX-License-Identifier: MIT
// What products and convolutions share: the portable kernel, which computes a result in tiles, and
// the epilogue after a library.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "targets/gpu/anchor.h"
#include "targets/gpu/epilogue.h"
#include "targets/gpu/few_rows.h"
#include "targets/gpu/gemm_problem.h"

namespace lathe::gpu {

// Strides of a view over the axes of a result that it broadcasts to.
std::array<int64_t, kMaxRank> strides_over(const TensorView& view, int rank);

// What the text of gemm.gpu computes.
struct ProductForm {
  bool conv = false;
  bool direct = false;    // without tiles
  bool finish = false;    // adds partial sums
  bool in_place = false;  // reads the sums where the result lies
  std::string norm = "";  // of the rows: what the kernel of few rows takes for it
  const FewRows* few = nullptr;
  int threads = 0;  // of fragments; 0: none
};
// `first`: see Anchor::epilogue_text.
Source product_source(const Anchor& whole, const ProductForm& form, const std::string& first);

// Few tiles split the depth over more blocks, whose sums a second launch adds.
class TiledKernel : public GpuKernel {
 public:
  bool uses_workspace() const override { return true; }

 protected:
  TiledKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, ""), whole_(instruction) {}

  void make_code(bool conv, bool direct, const std::string& first);
  int64_t partial_bytes() const;
  void split(Problem& problem, void* workspace) const;
  void run(const LaunchArgs& args, const Problem& problem, const Arguments& arguments) const;
  // The epilogue over sums that lie in the result. `places`: of the result, sides, the twin's
  // value.
  void run_epilogue(const LaunchArgs& args, const Problem& problem, const Arguments& arguments,
                    std::span<const Place> places) const;

  Anchor whole_;
  std::optional<LazyCode> code_;
  bool by_library_ = false;
  LibraryEpilogue epilogue_;

 private:
  int64_t wanted_blocks() const;

  uint32_t threads_ = kThreads;  // of a tile
  std::optional<LazyCode> finish_;
  std::optional<LazyCode> epilogue_code_;
  std::optional<RowsEpilogue> rows_epilogue_;
};

}  // namespace lathe::gpu
