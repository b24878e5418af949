// SPDX-License-Identifier: MIT
// Experts as MXFP4: NAME_blocks u8 [experts, outputs, inputs / 32, 16] has two codes per byte, the
// low one first; NAME_scales u8 [experts, outputs, inputs / 32] has exponents plus 127.
#include <cmath>

#include "base/error.h"
#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kGroup = 32;
constexpr float kLevels[16] = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

// Codes of 8 bits are twice the level, scales half of the group's: both are exact.
class Mxfp4Experts final : public QuantisedTensor {
 public:
  Mxfp4Experts(const StoredTensor& codes, const StoredTensor& scales, Dims dims)
      : codes_(codes), scales_(scales), dims_(std::move(dims)) {}

  std::optional<PackedMatrix> packed() const override {
    PackedMatrix m;
    m.rows = dims_[0] * dims_[1];
    m.columns = dims_[2];
    m.bits = 8;
    m.block = kGroup;
    m.codes = Tensor(ElementType::u8, {m.rows, m.columns});
    m.scales = Tensor(ElementType::f32, {m.rows, m.columns / kGroup});
    const Tensor from = plain_tensor(codes_, codes_.stored_name);
    const Tensor exponents = plain_tensor(scales_, scales_.stored_name);
    for (int64_t i = 0; i < m.codes.count(); ++i) {
      const float level = kLevels[from.as<uint8_t>()[i / 2] >> (i % 2 * 4) & 15];
      m.codes.as<uint8_t>()[i] = static_cast<uint8_t>(128 + static_cast<int>(2 * level));
    }
    for (int64_t i = 0; i < m.scales.count(); ++i) {
      m.scales.as<float>()[i] = std::ldexp(0.5F, exponents.as<uint8_t>()[i] - 127);
    }
    return m;
  }

  Tensor dequantised() const override {
    const Tensor values = dequantise(*packed());
    return Tensor(values.type(), dims_, Tensor::dense_strides(dims_), values.data(),
                  values.owner());
  }
  std::string held_as() const override { return "8-bit codes, f32 scales per 32"; }

 private:
  StoredTensor codes_;
  StoredTensor scales_;
  Dims dims_;
};

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
    StoredTensor joined = codes;
    joined.type = "MXFP4";
    joined.dims = dims;
    joined.quantised = std::make_shared<Mxfp4Experts>(codes, scales, dims);
    weights.insert(stem, std::move(joined));
  });
}

const RegisterQuantiser kMxfp4{
    {"mxfp4", "experts; becomes 8-bit codes with scales per 32, exactly", join_mxfp4}};

}  // namespace
}  // namespace lathe::checkpoint
