// SPDX-License-Identifier: MIT
// One call of a direct convolution. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "targets/cpu/kernels/conv/conv_direct.h"

namespace lathe::cpu {

// State shared by the chunks of one call.
class DirectConvolution::Run {
 public:
  Run(const DirectConvolution& conv, const ConvCall& call) : c_(conv), p_(conv.p_), call_(call) {
    if (!has_integer_sums(c_.type_)) return;
    const std::byte* at = weights() + c_.panel_bytes_;
    const size_t parts = c_.parts_.size();
    const auto* zeros =
        reinterpret_cast<const int32_t*>(weights() + c_.packed_bytes() - c_.sums_bytes());
    for (size_t i = 0; i < parts; ++i) {
      const Part& part = c_.parts_[i];
      ones_.push_back(at);
      at += c_.panel_stride(part);
      const auto taps = static_cast<int64_t>(
          part.blocks.empty() ? 0 : part.blocks.size() * part.blocks[0].taps.size());
      const int64_t depth = taps * c_.original_.group_channels();
      terms_.push_back(integer_terms(call, p_.outputs, depth, c_.shift_,
                                     reinterpret_cast<const int32_t*>(at), zeros));
      at += c_.sums_bytes();
    }
  }

  // `x` is image n as the GEMMs read it: after im2col or padding, if it is prepared.
  void chunk(int64_t n, const std::byte* x, const Chunk& chunk) const;

 private:
  struct Work;
  const std::byte* weights() const { return static_cast<const std::byte*>(call_.weights); }
  const IntegerTerms* terms(size_t part) const { return terms_.empty() ? nullptr : &terms_[part]; }

  const DirectConvolution& c_;
  const ConvProblem& p_;
  const ConvCall& call_;
  std::vector<IntegerTerms> terms_;     // per part
  std::vector<const std::byte*> ones_;  // per part
};

}  // namespace lathe::cpu
