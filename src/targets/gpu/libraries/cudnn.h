// SPDX-License-Identifier: MIT
// Convolutions by cuDNN's back end.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os_library.h"
#include "targets/gpu/code/disk_cache.h"
#include "targets/gpu/driver/driver.h"
#include "tensor/element_type.h"

namespace lathe::gpu {

// A tensor over (image, channel, spatial axes); weights over (output, input channel, spatial axes).
struct LibraryTensor {
  void* data = nullptr;
  std::array<int64_t, 5> dims{};
  std::array<int64_t, 5> strides{};
};

// y = relu(conv(x, w) + residual + bias), each of the last three if present.
struct LibraryConvolution {
  ElementType type = ElementType::f32;  // of all tensors
  size_t axes = 2;                      // spatial, 2 or 3
  LibraryTensor x;
  LibraryTensor w;
  LibraryTensor y;
  LibraryTensor residual;  // of y's shape
  LibraryTensor bias;      // [1, channels, 1, 1]
  bool has_residual = false;
  bool has_bias = false;
  bool relu = false;
  std::array<int64_t, 3> strides{1, 1, 1};
  std::array<int64_t, 3> dilations{1, 1, 1};
  std::array<int64_t, 3> pad_begin{};
  std::array<int64_t, 3> pad_end{};
};

struct CudnnFunctions;
class CudnnPlan;

class Cudnn {
 public:
  // Scratch of a convolution, of any alignment: what the library may use, and its alignment.
  static constexpr int64_t kUsedBytes = int64_t{64} << 20;
  static constexpr int64_t kWorkspaceBytes = kUsedBytes + 256;

  // Null if it cannot be opened; then `reason` states why.
  static std::unique_ptr<Cudnn> open(Driver& driver, DiskCache& cache, std::string* reason);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  static bool computes(ElementType type);
  // The plans of all convolutions that are expected are made together, before the next one runs.
  // Of data only the alignment counts.
  void expect(const LibraryConvolution& convolution);
  // Enqueues the convolution. False if the library has no kernel for it: then nothing is enqueued.
  bool run(StreamHandle stream, const LibraryConvolution& convolution, void* workspace);
  std::string description() const;  // "cuDNN 9.14.0, /usr/lib/…"

 private:
  Cudnn(Driver& driver, DiskCache& cache, std::shared_ptr<const DynamicLibrary> library,
        const CudnnFunctions& f);
  std::unique_ptr<CudnnPlan> make_plan(const LibraryConvolution& convolution) const;
  void make_expected();
  // Replaces a plan of the cache that failed.
  void replace_kept(std::unique_ptr<CudnnPlan>& plan, const LibraryConvolution& convolution,
                    int status);

  Driver& driver_;
  DiskCache& cache_;
  std::shared_ptr<const DynamicLibrary> library_;
  std::unique_ptr<const CudnnFunctions> f_;
  void* handle_ = nullptr;
  std::mutex mutex_;  // the handle has one stream
  std::map<std::vector<int64_t>, LibraryConvolution> expected_;
  std::map<std::vector<int64_t>, std::unique_ptr<CudnnPlan>> plans_;
  std::vector<std::unique_ptr<CudnnPlan>> failed_;  // replaced; captures may refer to them
};

}  // namespace lathe::gpu
