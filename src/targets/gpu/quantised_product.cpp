// SPDX-License-Identifier: MIT
#include "targets/gpu/quantised_product.h"

namespace lathe::gpu {
namespace {

// As kernels/n_bits_rows.gpu has them.
constexpr int64_t kTile = 8;  // rows
constexpr int64_t kColumns = 16;
constexpr int64_t kGroups = 8;
constexpr int64_t kAhead = 2;
constexpr int64_t kGroupThreads = 32;
constexpr int64_t kFew = 8;  // rows of a block of threads, and of one where there are more
constexpr int64_t kMany = 16;
constexpr int64_t kFactorBytes = 64;  // of a tile's block

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t tiles_of(int64_t m) { return ceil_div(m, m > kFew ? kMany : kFew) * (m > kFew ? 2 : 1); }

Source quantise_source(const std::string& weights) {
  return {"quantise_rows", weights + std::string(kernel_text("quantised_elements.gpu")) +
                               std::string(kernel_text("quantise_rows.gpu"))};
}
Source product_source(const Anchor& whole, const std::string& weights, int64_t rows) {
  return {
      "n_bits",
      fmt::format("{}#define TWIN {}\n#define SIDES {}\n#define NORM 0\n#define FINISH 0\n"
                  "#define BYTES 1\n#define ROWS {}\n#define GROUPS {}\n#define AHEAD {}\n{}{}{}",
                  weights, whole.twin() != nullptr ? 1 : 0, whole.sides().size(), rows, kGroups,
                  kAhead, kernel_text("byte_fragments.gpu"),
                  Anchor::kernel_with("n_bits_weights.gpu", whole.epilogue_text("float", "")),
                  kernel_text("n_bits_rows.gpu"))};
}

}  // namespace

QuantisedProduct::QuantisedProduct(const GpuDevice& device, const Anchor& whole,
                                   const PackedShape& shape, const std::string& weights)
    : device_(device),
      shape_(shape),
      quantise_(device, quantise_source(weights), true),
      few_(device, product_source(whole, weights, kFew), true),
      many_(device, product_source(whole, weights, kMany), true) {}

int64_t QuantisedProduct::workspace_bytes(int64_t m) const {
  return tiles_of(m) * shape_.blocks * (kTile * kBlock + kFactorBytes);
}

void QuantisedProduct::run(const LaunchArgs& args, const PackedOperands& operands,
                           std::byte* workspace, Overlap overlap) const {
  const TensorView& a = operands.a;
  const int64_t tiles = tiles_of(operands.m);
  std::byte* const factors = workspace + tiles * shape_.blocks * kTile * kBlock;
  Arguments rows;
  rows.add(a.data);
  rows.add(*row_stride(a));
  for (const int64_t value : {a.strides[a.rank - 1], operands.m, shape_.k, shape_.blocks}) {
    rows.add(value);
  }
  rows.add(workspace);
  rows.add(factors);
  constexpr int64_t kPieces = kBlock / 8;  // threads of a block of elements
  launch_code(device_, quantise_.get(), args, rows,
              {static_cast<uint32_t>(ceil_div(shape_.blocks * kPieces, kThreads)),
               static_cast<uint32_t>(tiles * kTile), 1},
              kThreads, Overlap::launch);
  Arguments arguments = arguments_of(shape_, operands);
  arguments.add(workspace);
  arguments.add(factors);
  const int64_t most = operands.m > kFew ? kMany : kFew;
  launch_code(device_, (operands.m > kFew ? many_ : few_).get(), args, arguments,
              {static_cast<uint32_t>(ceil_div(shape_.n, kColumns)),
               static_cast<uint32_t>(ceil_div(operands.m, most)), 1},
              kGroups * kGroupThreads, overlap);
}

}  // namespace lathe::gpu
