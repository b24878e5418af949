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
  LibraryTensor residual;  // of y's shape; without data: none
  LibraryTensor bias;      // [1, channels, 1, 1]; without data: none
  bool relu = false;
  std::array<int64_t, 3> strides{1, 1, 1};
  std::array<int64_t, 3> dilations{1, 1, 1};
  std::array<int64_t, 3> pad_begin{};
  std::array<int64_t, 3> pad_end{};
};

class Cudnn {
 public:
  // Scratch of a convolution, of any alignment: what the library may use, and its alignment.
  static constexpr int64_t kUsedBytes = int64_t{64} << 20;
  static constexpr int64_t kWorkspaceBytes = kUsedBytes + 256;

  // Null if it cannot be opened; then `reason` states why.
  static std::unique_ptr<Cudnn> open(Driver& driver, std::string* reason);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  static bool computes(ElementType type);
  // Enqueues the convolution. False if the library has no kernel for it: then nothing is enqueued.
  bool run(StreamHandle stream, const LibraryConvolution& convolution, void* workspace);
  std::string description() const;  // "cuDNN 9.14.0, /usr/lib/…"

 private:
  struct Functions;
  class Graph;
  Cudnn(Driver& driver, std::shared_ptr<const DynamicLibrary> library, const Functions& f);

  Driver& driver_;
  std::shared_ptr<const DynamicLibrary> library_;
  std::unique_ptr<const Functions> f_;
  void* handle_ = nullptr;
  std::mutex mutex_;  // the handle has one stream
  std::map<std::vector<int64_t>, std::unique_ptr<Graph>> graphs_;
};

}  // namespace lathe::gpu
