// SPDX-License-Identifier: MIT
#include "targets/gpu/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "targets/gpu/code/source.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

// As kernels/few_rows.gpu has them.
constexpr int64_t kGroup = 32;   // threads that share a column
constexpr int64_t kMostPad = 8;  // pieces between those of a tile
constexpr int64_t kPieceBytes = 16;
constexpr int64_t kGroups = kThreads / kGroup;

// Several columns read the activations once, if blocks are left for all multiprocessors.
int64_t columns_for(int64_t n, int64_t products, int64_t multiprocessors) {
  constexpr int64_t kMostColumns = 4;
  int64_t columns = kMostColumns / products;
  while (columns > 1 && n * 2 < columns * kGroups * multiprocessors * 3) columns /= 2;
  return columns;
}

}  // namespace

FewRows few_rows(int64_t rows, const FewRowsProblem& problem, int64_t multiprocessors) {
  constexpr int64_t kMostShared = 40 * 1024;
  constexpr int64_t kWantedShared = 32 * 1024;
  constexpr int64_t kLeastLoad = 4;
  FewRows shape{.rows = rows,
                .columns = columns_for(problem.n, problem.products, multiprocessors),
                .piece = problem.piece};
  int64_t bytes = 0;  // of a tile
  for (;; shape.load /= 2) {
    shape.per = shape.load * 8 / problem.bits;
    const int64_t pieces = std::max<int64_t>(shape.per / problem.piece, 1);
    bytes = rows * pieces * (kGroup + (pieces == 1 ? 0 : kMostPad)) * kPieceBytes;
    const bool fits = (problem.block == 0 || shape.per <= problem.block) && bytes <= kMostShared;
    if (shape.load == kLeastLoad || fits) break;
  }
  const int64_t tiles = (problem.depth + kGroup * shape.per - 1) / (kGroup * shape.per);
  shape.stage = std::clamp<int64_t>(kWantedShared / bytes, 1, std::max<int64_t>(tiles, 1));
  if (shape.stage < tiles) shape.stage -= shape.stage % problem.ahead;
  return shape;
}

std::string FewRows::text() const {
  return fmt::format(
      "#define ROWS {}\n#define COLUMNS {}\n#define LOAD {}\n#define PER {}\n#define PIECE {}\n"
      "#define STAGE {}\n{}",
      rows, columns, load, per, piece, stage, kernel_text("few_rows.gpu"));
}

std::array<uint32_t, 3> FewRows::grid(int64_t m, int64_t n) const {
  const int64_t width = kGroups * columns;
  return {static_cast<uint32_t>((n + width - 1) / width),
          static_cast<uint32_t>((m + rows - 1) / rows), 1};
}

}  // namespace lathe::gpu
