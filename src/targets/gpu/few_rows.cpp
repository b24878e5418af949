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

constexpr int64_t kMostColumns = 4;

// Several columns read the activations once, if blocks are left for all multiprocessors.
int64_t columns_for(int64_t n, int64_t products, int64_t multiprocessors) {
  int64_t columns = kMostColumns / products;
  while (columns > 1 && n * 2 < columns * (kThreads / kGroup) * multiprocessors * 3) columns /= 2;
  return columns;
}

// For one row: what a launch takes, in bytes that a block reads meanwhile. Constants fitted on an
// H200.
void choose_turns(const FewRowsProblem& problem, int64_t multiprocessors, FewRows& shape) {
  constexpr double kStart = 20 * 1024;  // until a block has its activations
  constexpr double kTurn = 4 * 1024;    // sums and epilogue of a turn
  constexpr int64_t kResident = 512;    // threads of a multiprocessor, by registers
  constexpr int64_t kDeep = 8192;       // a row that takes long to quantise: larger blocks share it
  constexpr int64_t kFewWaves = 4;      // more need not end together
  if (problem.planes > 0 && problem.depth > kDeep && problem.norm_threads == 0) {
    shape.threads = kResident;
  }
  const int64_t groups = shape.threads / kGroup;
  const int64_t slots = kResident / shape.threads * multiprocessors;
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const double column = static_cast<double>(problem.depth * problem.bits * problem.products) / 8;
  double least = 0;
  for (int64_t columns = kMostColumns / problem.products; columns > 0; columns /= 2) {
    const int64_t width = groups * columns;
    const int64_t most = ceil_div(ceil_div(problem.n, width), slots);
    for (const int64_t turns : {int64_t{1}, most}) {
      const int64_t blocks = ceil_div(problem.n, width * turns);
      const double waves = blocks <= kFewWaves * slots
                               ? static_cast<double>(ceil_div(blocks, slots))
                               : static_cast<double>(blocks) / static_cast<double>(slots) + 0.5;
      const double turn = static_cast<double>(width) * column + kTurn;
      const double cost = waves * (kStart + static_cast<double>(turns) * turn);
      if (least != 0 && cost >= least) continue;
      least = cost;
      shape.columns = columns;
      shape.turns = turns;
    }
  }
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
    bytes = std::max<int64_t>(problem.planes, 1) * rows * pieces *
            (kGroup + (pieces == 1 ? 0 : kMostPad)) * kPieceBytes;
    const bool fits = (problem.block == 0 || shape.per <= problem.block) && bytes <= kMostShared;
    if (shape.load == kLeastLoad || fits) break;
  }
  const int64_t tiles = (problem.depth + kGroup * shape.per - 1) / (kGroup * shape.per);
  shape.stage = std::clamp<int64_t>(kWantedShared / bytes, 1, std::max<int64_t>(tiles, 1));
  if (shape.stage < tiles) {
    shape.stage = std::max(shape.stage - shape.stage % problem.ahead, problem.ahead);
  }
  if (rows > 1 || shape.stage < tiles) return shape;
  choose_turns(problem, multiprocessors, shape);
  constexpr int64_t kFactorBytes = 8;  // of a thread's elements of a tile
  constexpr int64_t kMostAhead = 4;    // tiles times columns
  shape.quantised = problem.planes > 0 && problem.bits > 2 && shape.load == kPieceBytes &&
                    shape.stage * (bytes + kGroup * kFactorBytes) <= kMostShared;
  if (shape.quantised) {
    shape.planes = problem.planes;
    shape.ahead = std::max<int64_t>(kMostAhead / (shape.columns * problem.products), 1);
    while (shape.stage % shape.ahead != 0) shape.ahead /= 2;
    shape.even = problem.depth == shape.stage * kGroup * shape.per;
  }
  constexpr int64_t kMostKept = 2;
  constexpr int64_t kPieceElements = kPieceBytes / 2;  // of 16 bits
  if (problem.norm_threads == 0) return shape;
  const int64_t pieces = (problem.depth + kPieceElements - 1) / kPieceElements;
  const int64_t rounds = (problem.norm_threads + kThreads - 1) / kThreads;
  const int64_t kept = rounds * ((pieces + problem.norm_threads - 1) / problem.norm_threads);
  if (kept <= kMostKept) shape.kept = kept;
  return shape;
}

bool lies_whole(const void* data, int64_t stride, int64_t depth) {
  constexpr int64_t kElements = 8;
  return stride == 1 && depth % kElements == 0 &&
         reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(kPieceBytes) == 0;
}

std::string FewRows::text() const {
  const std::string own = fmt::format(
      "#define ROWS {}\n#define COLUMNS {}\n#define LOAD {}\n#define PER {}\n#define PIECE {}\n"
      "#define STAGE {}\n#define KEPT {}\n#define WHOLE {}\n{}",
      rows, columns, load, per, piece, stage, kept, whole ? 1 : 0, kernel_text("few_rows.gpu"));
  if (!quantised) return own;
  return fmt::format("#define WIDE {}\n#define AHEAD {}\n#define EVEN {}\n{}", planes - 1, ahead,
                     even ? 1 : 0, own);
}

std::array<uint32_t, 3> FewRows::grid(int64_t m, int64_t n) const {
  const int64_t width = threads / kGroup * columns * turns;
  return {static_cast<uint32_t>((n + width - 1) / width),
          static_cast<uint32_t>((m + rows - 1) / rows), 1};
}

}  // namespace lathe::gpu
