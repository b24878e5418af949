// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "passes/fuse_regions.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {

extern const KernelEntry kCast;
extern const KernelEntry kChooseTokens;
extern const KernelEntry kElementwise;
extern const KernelEntry kRegion;
extern const KernelEntry kAnchors[];
extern const size_t kAnchorCount;
extern const KernelEntry kMovements[];
extern const size_t kMovementCount;
extern const KernelEntry kNBits;
extern const KernelEntry kNorms[];
extern const size_t kNormCount;
extern const KernelEntry kRows[];
extern const size_t kRowCount;
extern const KernelEntry kTokens[];
extern const size_t kTokenCount;
extern const KernelEntry kWindows[];
extern const size_t kWindowCount;

namespace {

std::vector<std::span<const KernelEntry>> groups() {
  return {{kAnchors, kAnchorCount},
          {kMovements, kMovementCount},
          {kNorms, kNormCount},
          {kRows, kRowCount},
          {kTokens, kTokenCount},
          {kWindows, kWindowCount},
          {&kCast, 1},
          {&kChooseTokens, 1},
          {&kNBits, 1},
          {&kRegion, 1}};
}

}  // namespace

const KernelEntry* find_entry(const Op& op) {
  static const std::vector<std::span<const KernelEntry>> all = groups();
  for (const auto& group : all) {
    for (const KernelEntry& entry : group) {
      if (entry.op == op) return &entry;
    }
  }
  return is_elementwise(op) ? &kElementwise : nullptr;
}

}  // namespace lathe::gpu
