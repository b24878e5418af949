// SPDX-License-Identifier: MIT
// The epilogue of a product or convolution over sums that lie in its result, where a library has
// computed them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "targets/gpu/anchor.h"
#include "targets/gpu/gemm_problem.h"

namespace lathe::gpu {

// Takes 16 bytes of a row at once. Results of floats of at most 32 bits, whose operands are such.
class RowsEpilogue {
 public:
  // `first`: see Anchor::epilogue_text.
  RowsEpilogue(const GpuDevice& device, const Anchor& whole, const std::string& first, bool now);
  static bool computes(const Anchor& whole);

  // The launch; nullopt where the places, of the result, the sides and the twin's value, are not
  // such rows.
  struct Setup {
    Arguments arguments;
    int64_t pieces = 0;
  };
  std::optional<Setup> setup(const Problem& problem, std::span<const Place> places) const;
  const Code& code() const { return code_.get(); }

 private:
  std::vector<int64_t> bytes_;  // of an element, per place
  LazyCode code_;
};

}  // namespace lathe::gpu
