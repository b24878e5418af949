// SPDX-License-Identifier: MIT
#include "targets/sim/kernel.h"

#include <algorithm>

namespace lathe::sim {
namespace {

// Results of known shape; boxes do not exist on a device.
class KnownResults final : public HostMemory {
 public:
  explicit KnownResults(std::span<const TensorView> results) : results_(results) {}
  const TensorView& result(int i, std::span<const int64_t> dims) override {
    const TensorView& known = results_[static_cast<size_t>(i)];
    check(std::ranges::equal(known.extents(), dims), ErrorKind::device,
          "sim: result {} has shape [{}], inferred [{}]", i, fmt::join(dims, ", "),
          fmt::join(known.extents(), ", "));
    return known;
  }
  const Box& box(int i) override {
    fail(ErrorKind::internal, "sim: operand {} is requested as a box", i);
  }
  void set_box(int i, Box) override {
    fail(ErrorKind::internal, "sim: result {} is set as a box", i);
  }

 private:
  std::span<const TensorView> results_;
};

// A launch as it was enqueued.
struct Enqueued {
  std::vector<TensorView> in;
  std::vector<TensorView> out;
  std::vector<bool> present;
  std::vector<std::vector<int32_t>> in_dims;
  std::vector<std::vector<int32_t>> out_dims;
  std::vector<Tensor> host;  // content of on_host operands
  const int64_t* dims = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

class SimKernel final : public Kernel {
 public:
  SimKernel(const SimDevice& device, std::unique_ptr<const Kernel> kernel, std::vector<int> on_host)
      : device_(device),
        kernel_(std::move(kernel)),
        on_host_(std::move(on_host)),
        name_(fmt::format("sim.{}", kernel_->name().substr(kernel_->name().find('.') + 1))) {}
  std::string_view name() const override { return name_; }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  bool may_overwrite(int operand) const override { return kernel_->may_overwrite(operand); }
  bool writes(int result) const override { return kernel_->writes(result); }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }

  void launch(const LaunchArgs& args) const override {
    auto launch = std::make_shared<Enqueued>();
    for (size_t i = 0; i < args.in.size(); ++i) {
      launch->present.push_back(args.in[i] != nullptr);
      launch->in.push_back(args.has(i) ? *args.in[i] : TensorView{});
      const bool named = i < args.in_dims.size();
      launch->in_dims.push_back(named ? std::vector(args.in_dims[i].begin(), args.in_dims[i].end())
                                      : std::vector<int32_t>{});
      if (args.has(i) && std::ranges::find(on_host_, static_cast<int>(i)) != on_host_.end()) {
        keep(*launch, i);
      }
    }
    for (size_t i = 0; i < args.out.size(); ++i) {
      launch->out.push_back(*args.out[i]);
      const bool named = i < args.out_dims.size();
      launch->out_dims.push_back(named
                                     ? std::vector(args.out_dims[i].begin(), args.out_dims[i].end())
                                     : std::vector<int32_t>{});
    }
    launch->dims = args.dims;
    launch->workspace = args.workspace;
    if (uses_workspace()) launch->workspace_bytes = static_cast<size_t>(workspace_bytes(args));
    static_cast<SimStream&>(*args.stream).enqueue([this, launch] { run(*launch); });
  }

 private:
  // Copies an operand that the host reads.
  static void keep(Enqueued& launch, size_t i) {
    const TensorView& view = launch.in[i];
    const auto extents = view.extents();
    launch.host.push_back(Tensor(view.type, Dims(extents.begin(), extents.end()),
                                 Dims(view.strides.begin(), view.strides.begin() + view.rank),
                                 view.data, nullptr)
                              .clone());
    launch.in[i] = launch.host.back().view();
  }

  // The view on the stream's thread: real address, extents of the run block.
  TensorView resolve(const TensorView& view, const std::vector<int32_t>& ids,
                     const int64_t* dims) const {
    TensorView out = view;
    for (size_t axis = 0; axis < ids.size() && dims != nullptr && is_shifted(view.data); ++axis) {
      const int64_t extent = dims[ids[axis]];
      if (extent >= 0) out.dims[axis] = extent;
    }
    return device_.memory().real(out);
  }

  void run(const Enqueued& launch) const {
    const Memory& memory = device_.memory();
    const auto* dims = static_cast<const int64_t*>(
        launch.dims == nullptr ? nullptr : memory.real(launch.dims, sizeof(int64_t)));
    std::vector<TensorView> in;
    std::vector<TensorView> out;
    for (size_t i = 0; i < launch.in.size(); ++i) {
      in.push_back(resolve(launch.in[i], launch.in_dims[i], dims));
    }
    for (size_t i = 0; i < launch.out.size(); ++i) {
      out.push_back(resolve(launch.out[i], launch.out_dims[i], dims));
    }
    std::vector<const TensorView*> operands;
    std::vector<TensorView*> results;
    for (size_t i = 0; i < in.size(); ++i) {
      operands.push_back(launch.present[i] ? &in[i] : nullptr);
    }
    for (TensorView& view : out) results.push_back(&view);
    KnownResults host(out);
    LaunchArgs args;
    args.in = operands;
    args.out = results;
    args.dims = dims;
    args.workspace = launch.workspace == nullptr
                         ? nullptr
                         : memory.real(launch.workspace, launch.workspace_bytes);
    args.host = &host;
    kernel_->launch(args);
  }

  const SimDevice& device_;
  std::unique_ptr<const Kernel> kernel_;
  std::vector<int> on_host_;
  std::string name_;
};

}  // namespace

std::unique_ptr<const Kernel> on_stream(const SimDevice& device,
                                        std::unique_ptr<const Kernel> kernel,
                                        std::vector<int> on_host) {
  return std::make_unique<SimKernel>(device, std::move(kernel), std::move(on_host));
}

}  // namespace lathe::sim
