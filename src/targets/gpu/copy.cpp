// SPDX-License-Identifier: MIT
// Copies, dims and updates of states: the executor's own instructions on a GPU.
#include <algorithm>
#include <bit>

#include "ops/interpret/access.h"
#include "ops/support/state.h"
#include "ops/support/views.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

constexpr size_t kCopyRank = 16;

struct Side {
  size_t rank = 0;
  std::array<int64_t, kCopyRank> extents{};
  std::array<int64_t, kCopyRank> strides{};

  // Merges adjacent axes that are contiguous.
  explicit Side(const TensorView& view) {
    for (int axis = 0; axis < view.rank; ++axis) add(view.dims[axis], view.strides[axis]);
    if (rank == 0) add(1, 0, true);
  }
  void add(int64_t extent, int64_t stride, bool always = false) {
    if (extent == 1 && !always) return;
    if (rank > 0 && strides[rank - 1] == stride * extent) {
      extents[rank - 1] *= extent;
      strides[rank - 1] = stride;
      return;
    }
    extents[rank] = extent;
    strides[rank++] = stride;
  }
  void append_to(Arguments& arguments) const {
    arguments.add(static_cast<int64_t>(rank));
    arguments.add(std::span(extents).first(rank), kCopyRank, 1);
    arguments.add(std::span(strides).first(rank), kCopyRank);
  }
};

// Axes of equal shapes in the order of the target's memory.
void order_axes(TensorView& from, TensorView& to) {
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < to.rank; ++i) order[static_cast<size_t>(i)] = i;
  std::sort(order.begin(), order.begin() + to.rank, [&](int a, int b) {
    return to.strides[a] != to.strides[b] ? to.strides[a] > to.strides[b] : a < b;
  });
  const std::span<const int> used(order.data(), static_cast<size_t>(to.rank));
  const std::vector<int64_t> permutation(used.begin(), used.end());
  from = permuted(from, permutation);
  to = permuted(to, permutation);
}

// Memory of the device for as long as it lives.
class Scratch {
 public:
  Scratch(Driver& driver, size_t bytes) : driver_(driver), data_(driver.allocate(bytes)) {}
  ~Scratch() { driver_.free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  Driver& driver_;
  void* data_;
};

class CopyKernel final : public GpuKernel {
 public:
  explicit CopyKernel(const GpuDevice& device) : GpuKernel(device, "copy"), copier_(device) {}

  // Either side may lie on the host.
  void launch(const LaunchArgs& args) const override {
    const TensorView& from = *args.in[0];
    const TensorView& to = *args.out[0];
    if (to.count() == 0) return;
    const auto bytes = static_cast<size_t>(bytes_for(from.type, from.count()));
    if (is_packed(from.type) || (from.is_dense() && to.is_dense())) {
      return args.stream->copy(to.data, from.data, bytes);
    }
    const Driver& driver = device_.driver();
    const bool from_device = driver.is_on_device(from.data);
    const bool to_device = driver.is_on_device(to.data);
    if (from_device && to_device) return copier_.copy(*args.stream, from, to);
    // Strides of the host: by way of a dense tensor there.
    if (to_device) {
      Tensor dense(from.type, Dims(from.extents().begin(), from.extents().end()));
      copy_elements(from, dense.view());
      with_dense(
          args, to,
          [&](const TensorView& place) { args.stream->copy(place.data, dense.data(), bytes); },
          false);
      args.stream->synchronize();
      return;
    }
    Tensor dense(from.type, Dims(from.extents().begin(), from.extents().end()));
    with_dense(
        args, from,
        [&](const TensorView& place) { args.stream->copy(dense.data(), place.data, bytes); }, true);
    args.stream->synchronize();
    copy_elements(dense.view(), to);
  }

 private:
  // Calls f with the view if it is dense, else with a dense copy, before or after the call.
  template <class F>
  void with_dense(const LaunchArgs& args, const TensorView& view, F&& f, bool reads) const {
    if (view.is_dense()) return f(view);
    const auto bytes = static_cast<size_t>(bytes_for(view.type, view.count()));
    const Scratch memory(device_.driver(), bytes);
    const TensorView dense = dense_view(view.type, view.extents(), memory.data());
    if (reads) copier_.copy(*args.stream, view, dense);
    f(dense);
    if (!reads) copier_.copy(*args.stream, dense, view);
    args.stream->synchronize();
  }
  ElementCopier copier_;
};

class DimsKernel final : public GpuKernel {
 public:
  DimsKernel(const GpuDevice& device, std::vector<int32_t> dims)
      : GpuKernel(device, "dims"),
        dims_(dims.begin(), dims.end()),
        code_(device.code().get({"dims", std::string(kernel_text("dims.gpu"))})) {}
  void launch(const LaunchArgs& args) const override {
    constexpr size_t kMost = 64;
    const TensorView& y = *args.out[0];
    for (size_t first = 0; first < dims_.size(); first += kMost) {
      const size_t count = std::min(kMost, dims_.size() - first);
      Arguments arguments;
      arguments.add(y.as<int64_t>() + static_cast<int64_t>(first) * y.strides[0]);
      arguments.add(y.strides[0]);
      arguments.add(args.dims);
      arguments.add(static_cast<int64_t>(count));
      arguments.add(std::span(dims_).subspan(first, count), kMost);
      enqueue(*code_, args, arguments, {1, 1, 1}, kMost);
    }
  }

 private:
  std::vector<int64_t> dims_;
  std::shared_ptr<const Code> code_;
};

class ReplaceKernel final : public GpuKernel {
 public:
  explicit ReplaceKernel(const GpuDevice& device)
      : GpuKernel(device, "state_replace"), copier_(device) {}
  void launch(const LaunchArgs& args) const override {
    copier_.copy(*args.stream, *args.in[1], *args.out[0]);
  }

 private:
  ElementCopier copier_;
};

// As the host's: operands version, x and, where lengths differ, the lengths, which lie on the host.
class AppendKernel final : public GpuKernel {
 public:
  AppendKernel(const GpuDevice& device, int axis)
      : GpuKernel(device, "state_append"), axis_(axis), copier_(device) {}
  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[1];
    const TensorView& next = *args.out[0];
    const int64_t before = next.dims[axis_] - x.dims[axis_];
    if (!args.has(2)) {
      return copier_.copy(*args.stream, x, narrow(next, axis_, before, x.dims[axis_]));
    }
    const std::vector<int64_t> lengths = lengths_of(args, *args.in[2]);
    const int64_t longest = *std::ranges::max_element(lengths);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      const int64_t at = lengths[static_cast<size_t>(row)] + (before - longest);
      const TensorView target = narrow(next, 0, row, 1);
      copier_.copy(*args.stream, narrow(x, 0, row, 1), narrow(target, axis_, at, x.dims[axis_]));
      if (before > at) zero(args, narrow(target, axis_, at + x.dims[axis_], before - at));
    }
  }

 private:
  std::vector<int64_t> lengths_of(const LaunchArgs& args, const TensorView& view) const {
    std::vector<int64_t> lengths(static_cast<size_t>(view.dims[0]));
    if (!device_.driver().is_on_device(view.data)) {
      std::copy_n(view.as<const int64_t>(), lengths.size(), lengths.begin());
      return lengths;
    }
    args.stream->copy(lengths.data(), view.data, lengths.size() * sizeof(int64_t));
    args.stream->synchronize();
    return lengths;
  }
  // From one zero, by strides of 0.
  void zero(const LaunchArgs& args, const TensorView& view) const {
    const Scratch memory(device_.driver(), sizeof(int64_t) * 2);
    args.stream->fill(memory.data(), std::byte{0}, sizeof(int64_t) * 2);
    TensorView zeros = view;
    zeros.strides = {};
    zeros.data = memory.data();
    copier_.copy(*args.stream, zeros, view);
    args.stream->synchronize();
  }
  int axis_;
  ElementCopier copier_;
};

}  // namespace

std::string_view raw_name(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "u8";
    case 2:
      return "u16";
    case 4:
      return "u32";
    case 8:
      return "u64";
    default:
      return "Pair";
  }
}

std::shared_ptr<const Code> ElementCopier::code_for(int64_t bytes) const {
  const auto at = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(bytes)));
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Code>& code = codes_.at(at);
  if (code == nullptr) {
    code = device_.code().get(
        {"copy", fmt::format("#define ELEMENT {}\n{}", raw_name(bytes), kernel_text("copy.gpu"))});
  }
  return code;
}

void ElementCopier::copy(Stream& stream, const TensorView& from, const TensorView& to) const {
  const int64_t count = to.count();
  if (count == 0) return;
  const int64_t bytes = element_bytes(to.type);
  if (from.is_dense() && to.is_dense()) {
    return stream.copy(to.data, from.data, static_cast<size_t>(count * bytes));
  }
  TensorView source = from;
  TensorView target = to;
  if (std::ranges::equal(from.extents(), to.extents())) order_axes(source, target);
  const std::shared_ptr<const Code> code = code_for(bytes);
  Arguments arguments;
  arguments.add(source.data);
  arguments.add(target.data);
  arguments.add(count);
  Side(source).append_to(arguments);
  Side(target).append_to(arguments);
  const int64_t most = device_.driver().limits().multiprocessors * int64_t{16};
  const auto blocks =
      static_cast<uint32_t>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, most));
  static_cast<GpuStream&>(stream).set_latest(GpuStream::Latest::launch);
  device_.driver().launch(static_cast<GpuStream&>(stream).handle(),
                          {code->function(), {blocks, 1, 1}, kThreads, arguments.bytes()});
}

std::unique_ptr<const Kernel> make_copy_kernel(const GpuDevice& device) {
  return std::make_unique<CopyKernel>(device);
}

std::unique_ptr<const Kernel> make_dims_kernel(const GpuDevice& device, std::vector<int32_t> dims) {
  return std::make_unique<DimsKernel>(device, std::move(dims));
}

std::unique_ptr<const Kernel> make_state_kernel(const GpuDevice& device,
                                                const Instruction& instruction) {
  if (instruction.op().structural == Structural::state_replace) {
    return std::make_unique<ReplaceKernel>(device);
  }
  return std::make_unique<AppendKernel>(device, state_of(instruction).axis);
}

}  // namespace lathe::gpu
