// SPDX-License-Identifier: MIT
// Experts as MXFP4: NAME_blocks u8 [experts, outputs, inputs / 32, 16] has two codes per byte, the
// low one first; NAME_scales u8 [experts, outputs, inputs / 32] has exponents plus 127.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/checkpoint/quantised/quantiser.h"
#include "tensor/convert.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kGroup = 32;
constexpr float kLevels[16] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

Tensor read_mxfp4(const StoredTensor& codes, const StoredTensor& scales, const Dims& dims) {
  const Tensor from = plain_tensor(codes, codes.stored_name);
  const Tensor exponents = plain_tensor(scales, scales.stored_name);
  Tensor out(ElementType::bf16, dims);
  float group[kGroup];
  for (int64_t i = 0; i < exponents.count(); ++i) {
    const float scale = std::ldexp(1.0F, exponents.as<uint8_t>()[i] - 127);
    for (int64_t j = 0; j < kGroup; ++j) {
      const uint8_t byte = from.as<uint8_t>()[(i * kGroup + j) / 2];
      group[j] = kLevels[byte >> (j % 2 * 4) & 15] * scale;
    }
    convert(ElementType::bf16, out.as<uint16_t>() + i * kGroup, ElementType::f32, group, kGroup);
  }
  return out;
}

void join_mxfp4(const Config&, Weights& weights) {
  for_names_ending(weights, "_blocks", [&](const std::string& stem) {
    const StoredTensor codes = weights.take(stem + "_blocks");
    const StoredTensor scales = weights.take(stem + "_scales");
    check(codes.rank() == 4, ErrorKind::invalid_model,
          "tensor '{}' has shape [{}], expected 4 axes", escape(stem + "_blocks"),
          fmt::join(codes.dims, ", "));
    const Dims groups(codes.dims.begin(), codes.dims.end() - 1);
    check_part(codes, stem + "_blocks", "U8", {groups[0], groups[1], groups[2], kGroup / 2});
    check_part(scales, stem + "_scales", "U8", groups);
    const Dims dims = {groups[0], groups[1], groups[2] * kGroup};
    weights.insert(stem, dequantised_tensor(codes, "MXFP4", dims,
                                            [=] { return read_mxfp4(codes, scales, dims); }));
  });
}

const RegisterQuantiser kMxfp4{{"mxfp4", "experts; becomes f32", join_mxfp4}};

}  // namespace
}  // namespace lathe::checkpoint
