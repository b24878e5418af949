// SPDX-License-Identifier: MIT
#include "targets/gpu/tiled_kernel.h"

#include <algorithm>

#include "targets/gpu/expression.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kTile = 64;
constexpr int kTileWaves = 4;  // of fragments

int64_t tiles_of(int64_t size) { return (size + kTile - 1) / kTile; }

std::string text_of(const Anchor& whole, const ProductForm& form, const std::string& first) {
  const Instruction& anchor = whole.anchor();
  const ElementType result = whole.type().element;
  const std::string_view sum = type_name(compute_type(result));
  const std::string text = fmt::format(
      "typedef {} TA;\ntypedef {} TB;\ntypedef {} TY;\ntypedef {} ACC;\n#define CONV {}\n"
      "#define DIRECT {}\n#define FEW {}\n#define FRAGMENTS {}\n#define THREADS {}\n#define FINISH "
      "{}\n#define IN_PLACE {}\n#define TWIN {}\n#define SIDES {}\n",
      type_name(anchor.operands()[0]->type().element),
      type_name(anchor.operands()[1]->type().element), type_name(result), sum, form.conv ? 1 : 0,
      form.direct ? 1 : 0, form.few != nullptr ? 1 : 0, form.threads > 0 ? 1 : 0,
      form.few != nullptr ? static_cast<int>(kThreads) : form.threads, form.finish ? 1 : 0,
      form.in_place ? 1 : 0, whole.twin() != nullptr ? 1 : 0, whole.sides().size());
  const std::string kernel = whole.kernel_with("gemm.gpu", whole.epilogue_text(sum, first));
  if (form.threads > 0) {
    return text + "typedef TA T;\n" + std::string(kernel_text("fragments.gpu")) + kernel;
  }
  if (form.few == nullptr) return text + kernel;
  return text + "typedef TA T;\n#define BF16 0\n" + form.norm + form.few->text() + kernel;
}

}  // namespace

std::array<int64_t, kMaxRank> strides_over(const TensorView& view, int rank) {
  std::array<int64_t, kMaxRank> out{};
  for (int axis = 0; axis < view.rank; ++axis) {
    out[static_cast<size_t>(axis + rank - view.rank)] =
        view.dims[axis] == 1 ? 0 : view.strides[axis];
  }
  return out;
}

Source product_source(const Anchor& whole, const ProductForm& form, const std::string& first) {
  return {"gemm", text_of(whole, form, first)};
}

void TiledKernel::make_code(bool conv, bool direct, const std::string& first) {
  name_ += whole_.label();
  const Instruction& anchor = whole_.anchor();
  const auto source = [&](const ProductForm& form) { return product_source(whole_, form, first); };
  // Beside a library the portable kernel is rarely needed.
  const ElementType type = anchor.operands()[0]->type().element;
  const bool fragments = !direct && anchor.operands()[1]->type().element == type &&
                         compute_type(whole_.type().element) == ExprType::f32 &&
                         (type == ElementType::f16 || type == ElementType::bf16);
  if (fragments) threads_ = static_cast<uint32_t>(kTileWaves * device_.driver().limits().wave);
  code_.emplace(
      device_,
      source(
          {.conv = conv, .direct = direct, .threads = fragments ? static_cast<int>(threads_) : 0}),
      !by_library_);
  finish_.emplace(device_, source({.conv = conv, .finish = true}), !by_library_ && !direct);
  const bool in_rows = RowsEpilogue::computes(whole_);
  const bool follows = by_library_ && !epilogue_.complete;
  epilogue_code_.emplace(device_, source({.conv = conv, .finish = true, .in_place = true}),
                         follows && !in_rows);
  if (in_rows) rows_epilogue_.emplace(device_, whole_, first, follows);
}

// Blocks that fill the device.
int64_t TiledKernel::wanted_blocks() const {
  return int64_t{2} * device_.driver().limits().multiprocessors;
}

int64_t TiledKernel::partial_bytes() const {
  return wanted_blocks() * kTile * kTile * static_cast<int64_t>(sizeof(double));
}

void TiledKernel::split(Problem& problem, void* workspace) const {
  constexpr int64_t kLeastDepth = 64;  // of a split, a multiple of a tile's
  const int64_t tiles = tiles_of(problem.m) * tiles_of(problem.n) * problem.batches;
  const int64_t wanted =
      std::min(wanted_blocks() / std::max<int64_t>(tiles, 1), problem.k / kLeastDepth);
  if (wanted < 2 || workspace == nullptr) return;
  constexpr int64_t kDepth = 16;
  const int64_t depth = (problem.k + wanted - 1) / wanted;
  problem.split_depth = (depth + kDepth - 1) / kDepth * kDepth;
  problem.splits = (problem.k + problem.split_depth - 1) / problem.split_depth;
  problem.partial = workspace;
}

void TiledKernel::run(const LaunchArgs& args, const Problem& problem,
                      const Arguments& arguments) const {
  enqueue(code_->get(), args, arguments,
          {static_cast<uint32_t>(tiles_of(problem.m)), static_cast<uint32_t>(tiles_of(problem.n)),
           static_cast<uint32_t>(problem.batches * problem.splits)},
          threads_);
  if (problem.splits == 1) return;
  const int64_t count = problem.batches * problem.m * problem.n;
  enqueue(finish_->get(), args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
}

void TiledKernel::run_epilogue(const LaunchArgs& args, const Problem& problem,
                               const Arguments& arguments, std::span<const Place> places) const {
  if (rows_epilogue_) {
    if (const auto rows = rows_epilogue_->setup(problem, places)) {
      return enqueue(rows_epilogue_->code(), args, rows->arguments,
                     {blocks_for(rows->pieces, kThreads), 1, 1}, kThreads);
    }
  }
  const int64_t count = problem.batches * problem.m * problem.n;
  enqueue(epilogue_code_->get(), args, arguments, {blocks_for(count, kThreads), 1, 1}, kThreads);
}

}  // namespace lathe::gpu
