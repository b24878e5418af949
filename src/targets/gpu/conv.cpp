// SPDX-License-Identifier: MIT
// Convolutions, with their epilogues, by a library or the portable kernel.
#include <algorithm>

#include "ops/support/views.h"
#include "ops/support/window.h"
#include "targets/gpu/conv_library.h"
#include "targets/gpu/tiled_kernel.h"

namespace lathe::gpu {
namespace {

class ConvKernel final : public TiledKernel {
 public:
  ConvKernel(const GpuDevice& device, const Instruction& instruction, Constants constants)
      : TiledKernel(device, instruction),
        copier_(device),
        attributes_(InstructionReader(whole_.anchor()),
                    static_cast<size_t>(whole_.type().rank()) - 2),
        groups_(InstructionReader(whole_.anchor()).integer("group")) {
    const Instruction& anchor = whole_.anchor();
    std::string first;
    std::vector<size_t> added;
    if (InstructionReader(anchor).has(2)) {
      bias_ = whole_.operand(2);
      added.push_back(whole_.add_side(bias_));
      first = fmt::format("  v = v + x{};\n", added[0]);
    }
    const ElementType type = whole_.type().element;
    by_library_ = Cudnn::computes(type) && anchor.operands()[0]->type().element == type &&
                  anchor.operands()[1]->type().element == type &&
                  device.libraries().cudnn() != nullptr;
    if (by_library_) {
      library_.emplace(device_, whole_, bias_, added, attributes_, constants);
      epilogue_.complete = library_->complete();
    }
    // A tile has 64 columns.
    constexpr int64_t kFewChannels = 8;
    const std::optional<int64_t> channels = (*anchor.operands()[1]->type().dims)[0].constant();
    direct_ = groups_ > 1 && channels && *channels / groups_ < kFewChannels;
    make_code(true, direct_, first);
  }

  // After the partial sums: weights that are not dense.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const TensorView* w = most.in[static_cast<size_t>(whole_.operand(1))];
    const TensorView* x = most.in[static_cast<size_t>(whole_.operand(0))];
    const int64_t own =
        partial_bytes() + (w == nullptr || w->is_dense() ? 0 : bytes_for(w->type, w->count()));
    return by_library_ ? std::max(own, ConvLibrary::workspace_bytes(x, w)) : own;
  }
  std::string detail() const override { return by_library_ ? "cuDNN" : ""; }
  void expect(const LaunchArgs& args) const override {
    if (!by_library_ || args.out[0]->count() == 0) return;
    library_->expect(args, *args.in[static_cast<size_t>(whole_.operand(0))],
                     *args.in[static_cast<size_t>(whole_.operand(1))], attributes_);
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[static_cast<size_t>(whole_.operand(0))];
    TensorView w = *args.in[static_cast<size_t>(whole_.operand(1))];
    const TensorView& y = *args.out[0];
    if (y.count() == 0) return;
    bool summed = false;
    if (by_library_) {
      const auto way = library_->run(args, x, w, attributes_);
      if (way == ConvLibrary::Way::whole) return;
      summed = way == ConvLibrary::Way::sums;
    }
    if (!w.is_dense() && !summed) {
      const TensorView dense = dense_view(
          w.type, w.extents(), static_cast<std::byte*>(args.workspace) + partial_bytes());
      copier_.copy(*args.stream, w, dense);
      w = dense;
    }
    const auto spatial = static_cast<size_t>(y.rank - 2);
    std::array<WindowAxis, kWindowAxes> axes;
    window_axes(attributes_, x, y, w.extents().subspan(2), std::span(axes).first(spatial));
    Problem problem;
    problem.n = w.dims[0] / groups_;
    problem.batches = problem.batch_sizes[0] = groups_;
    problem.batch_rank = 1;
    problem.row_rank = kRowAxes;
    problem.row_sizes = {y.dims[0], 1, 1, 1};
    int64_t taps = 1;
    const size_t skipped = kWindowAxes - spatial;
    for (size_t i = 0; i < spatial; ++i) {
      problem.row_sizes[1 + skipped + i] = y.dims[i + 2];
      taps *= w.dims[i + 2];
    }
    problem.m = 1;
    for (const int64_t size : problem.row_sizes) problem.m *= size;
    problem.k = w.dims[1] * taps;
    if (!direct_ && !summed) split(problem, args.workspace);
    Place a{.data = x.data, .batch = {w.dims[1] * x.strides[1]}, .row = {x.strides[0]}};
    Place b{.data = w.data, .batch = {problem.n * w.strides[0]}, .column = w.strides[0]};
    Arguments arguments;
    problem.append_to(arguments);
    a.append_to(arguments);
    arguments.add(int64_t{0});
    b.append_to(arguments);
    arguments.add(int64_t{1});  // weights are dense
    std::vector<Place> places{place_of(y.data, strides_over(y, y.rank), problem, spatial)};
    places[0].append_to(arguments);
    for (size_t i = 0; i < kWindowAxes; ++i) {
      if (i < skipped) {
        for (const int64_t value : {1, 1, 1, 0, 0, 0, 1}) arguments.add(value);
        continue;
      }
      const WindowAxis& axis = axes[i - skipped];
      for (const int64_t value :
           {axis.input, axis.stride, axis.dilation, axis.pad_begin, x.strides[2 + i - skipped],
            w.strides[2 + i - skipped], axis.kernel}) {
        arguments.add(value);
      }
    }
    arguments.add(taps);
    arguments.add(x.strides[1]);
    arguments.add(w.strides[1]);
    for (const int side : whole_.sides()) {
      const TensorView& view = *args.in[static_cast<size_t>(side)];
      std::array<int64_t, kMaxRank> strides = strides_over(view, y.rank);
      // The bias is a vector of channels.
      if (side == bias_) {
        strides = {};
        strides[1] = view.dims[view.rank - 1] == 1 ? 0 : view.strides[view.rank - 1];
      }
      places.push_back(place_of(view.data, strides, problem, spatial));
      places.back().append_to(arguments);
    }
    if (summed) return run_epilogue(args, problem, arguments, places);
    if (direct_) {
      return enqueue(code_->get(), args, arguments, {blocks_for(y.count(), kThreads), 1, 1},
                     kThreads);
    }
    run(args, problem, arguments);
  }

 private:
  static Place place_of(void* data, const std::array<int64_t, kMaxRank>& strides,
                        const Problem& problem, size_t spatial) {
    Place place{
        .data = data, .batch = {problem.n * strides[1]}, .row = {strides[0]}, .column = strides[1]};
    for (size_t i = 0; i < spatial; ++i) {
      place.row[1 + kWindowAxes - spatial + i] = strides[2 + i];
    }
    return place;
  }

  ElementCopier copier_;
  WindowAttributes attributes_;
  std::optional<ConvLibrary> library_;
  int64_t groups_;
  int bias_ = -1;
  bool direct_ = false;
};

}  // namespace

std::string why_no_conv(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const int rank = instruction.result()->type().rank();
  return rank < 3 || rank > 5 ? fmt::format("{} spatial axes", rank - 2) : "";
}

std::unique_ptr<const Kernel> make_conv(const GpuDevice& device, const Instruction& instruction,
                                        Constants constants) {
  return std::make_unique<ConvKernel>(device, instruction, constants);
}

}  // namespace lathe::gpu
