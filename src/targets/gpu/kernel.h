// SPDX-License-Identifier: MIT
// Kernels on a GPU: their code, arguments and launch.
#pragma once

#include <array>
#include <cstring>
#include <string>

#include "plan/kernel.h"
#include "targets/gpu/device.h"

namespace lathe::gpu {

// The structure that a kernel takes: members of 8 bytes in the order of its declaration.
class Arguments {
 public:
  void add(int64_t value) { append(&value, sizeof(value)); }
  void add(double value) { append(&value, sizeof(value)); }
  void add(const void* pointer) { append(&pointer, sizeof(pointer)); }
  // `count` members: the values, then `rest`.
  void add(std::span<const int64_t> values, size_t count, int64_t rest = 0) {
    for (size_t i = 0; i < count; ++i) add(i < values.size() ? values[i] : rest);
  }
  std::span<const std::byte> bytes() const { return {memory_.data(), size_}; }

 private:
  void append(const void* value, size_t bytes) {
    check(size_ + bytes <= memory_.size(), ErrorKind::internal, "arguments of more than {} bytes",
          memory_.size());
    std::memcpy(memory_.data() + size_, value, bytes);
    size_ += bytes;
  }
  // Vendors take 4 KB.
  alignas(16) std::array<std::byte, 4064> memory_;
  size_t size_ = 0;
};

// Reason why a plain tensor of this type is not computed with; empty if it is.
std::string why_no_type(const Type& type);
// Reason why operands and results are not all such tensors.
std::string why_no_types(const Instruction& instruction);

// Whether a launch may start before the one before it ends (KernelLaunch::overlaps). A product
// writes neither tables nor caches.
enum class Overlap : uint8_t { none, launch, product };
// Enqueues a launch on the stream of `args`.
void launch_code(const GpuDevice& device, const Code& code, const LaunchArgs& args,
                 const Arguments& arguments, const std::array<uint32_t, 3>& grid, uint32_t threads,
                 Overlap overlap = Overlap::none);
// Blocks for `count` independent elements, each thread of which takes several.
uint32_t blocks_for(const GpuDevice& device, int64_t count, uint32_t threads);

class GpuKernel : public Kernel {
 public:
  std::string_view name() const override { return name_; }

 protected:
  GpuKernel(const GpuDevice& device, std::string name)
      : device_(device), name_("gpu." + std::move(name)) {}

  void enqueue(const Code& code, const LaunchArgs& args, const Arguments& arguments,
               const std::array<uint32_t, 3>& grid, uint32_t threads,
               Overlap overlap = Overlap::none) const {
    launch_code(device_, code, args, arguments, grid, threads, overlap);
  }
  uint32_t blocks_for(int64_t count, uint32_t threads) const {
    return gpu::blocks_for(device_, count, threads);
  }

  const GpuDevice& device_;
  std::string name_;
};

// Code that is compiled when it is first needed, or `now`.
class LazyCode {
 public:
  LazyCode(const GpuDevice& device, Source source, bool now)
      : device_(device), source_(std::move(source)) {
    if (now) get();
  }
  LazyCode(const LazyCode&) = delete;
  LazyCode& operator=(const LazyCode&) = delete;
  // Compiles it before a launch needs it, after what is needed soon.
  void expect() { expected_ = device_.code().get(source_, Wanted::later); }
  const Code& get() const {
    std::call_once(made_, [this] { code_ = device_.code().get(source_); });
    return *code_;
  }

 private:
  const GpuDevice& device_;
  Source source_;
  mutable std::once_flag made_;
  mutable std::shared_ptr<const Code> code_;
  std::shared_ptr<const Code> expected_;
};

// Threads of a block where nothing else decides.
inline constexpr uint32_t kThreads = 256;

// One op's kernels.
struct KernelEntry {
  const Op& op;
  // Reason why there is none for any operand values; empty if there is one. Lowering then keeps a
  // composite.
  std::string (*why_not)(const Instruction& instruction);
  KernelChoice (*make)(const GpuDevice& device, const Instruction& instruction,
                       Constants constants);
};
// Null: the op has no kernel.
const KernelEntry* find_entry(const Op& op);

// Elementwise instructions, alone or as a region.
std::string why_no_elementwise(const Instruction& instruction);
std::string why_not_fused(const Instruction& instruction);
std::string why_no_elementwise_region(const Instruction& region);

// Copies views of the device, any strides, in row-major order of their elements.
class ElementCopier {
 public:
  explicit ElementCopier(const GpuDevice& device) : device_(device) {}
  void copy(Stream& stream, const TensorView& from, const TensorView& to) const;

 private:
  std::shared_ptr<const Code> code_for(int64_t bytes) const;
  const GpuDevice& device_;
  mutable std::mutex mutex_;
  mutable std::array<std::shared_ptr<const Code>, 5> codes_;  // by log2 of an element's bytes
};
std::string_view raw_name(int64_t bytes);  // the type of elements that are only moved
std::unique_ptr<const Kernel> make_copy_kernel(const GpuDevice& device);
std::unique_ptr<const Kernel> make_dims_kernel(const GpuDevice& device, std::vector<int32_t> dims);
std::unique_ptr<const Kernel> make_state_kernel(const GpuDevice& device,
                                                const Instruction& instruction);

}  // namespace lathe::gpu
