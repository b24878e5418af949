// SPDX-License-Identifier: MIT
// The normalisation of a product's rows: in the kernel of few rows, or a launch before the product.
#pragma once

#include <memory>
#include <string>

#include "targets/gpu/anchor.h"

namespace lathe::gpu {

class RowsPrologue {
 public:
  RowsPrologue(const GpuDevice& device, const Anchor& whole);
  // Sums of a row of 16-bit elements; 0: there is no normalisation of such.
  int64_t threads() const;
  // True if its factors are constants.
  bool is_constant(Constants constants) const;
  // True if a launch's factors lie as FewRows::whole demands.
  bool lies_whole(const LaunchArgs& args) const;
  // Before few_rows.gpu; and what the kernel takes for it, after all else.
  std::string text() const;
  void append_to(Arguments& arguments, const LaunchArgs& args) const;
  // Leaves normalised rows of a launch of the product in `out`.
  void normalise(const LaunchArgs& args, const TensorView& rows, TensorView& out) const;

 private:
  struct Factor {
    int operand = -1;  // of the launch
    ElementType type = ElementType::f32;
  };
  Factor factor_of(const Anchor& whole, size_t i) const;

  const Instruction* norm_;
  std::unique_ptr<const Kernel> kernel_;
  Factor scale_;
  Factor bias_;
  double epsilon_ = 0;
};

}  // namespace lathe::gpu
