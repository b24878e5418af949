// SPDX-License-Identifier: MIT
// A plan of cuDNN for one convolution.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "targets/gpu/libraries/cudnn.h"

namespace lathe::gpu {

struct CudnnFunctions {
#define LATHE_FUNCTION(name, type, vendor) std::add_pointer_t<type> name = nullptr;
#include "targets/gpu/libraries/cudnn_functions.inc"
#undef LATHE_FUNCTION
};

// What plans depend on besides addresses; equal convolutions share theirs.
std::vector<int64_t> key_of(const LibraryConvolution& convolution);

class CudnnPlan {
 public:
  // The first plan of the library's choice that can be built. Without one, the library has none.
  CudnnPlan(const CudnnFunctions& f, std::shared_ptr<void> handle,
            const LibraryConvolution& convolution);
  // The kept one of text(), as far as the library takes it.
  CudnnPlan(const CudnnFunctions& f, std::shared_ptr<void> handle, const std::string& text);
  ~CudnnPlan();
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  bool good() const { return plan_ != nullptr; }
  bool is_kept() const { return kept_; }
  // The one it was made with and runs with: one thread at a time may use it.
  const std::shared_ptr<void>& handle() const { return owner_; }
  // Its form for other processes; empty if the library has none.
  std::string text() const;
  // The library's status.
  int run(StreamHandle stream, const LibraryConvolution& convolution, void* workspace) const;

 private:
  void* make(int kind);
  bool set(void* descriptor, int attribute, int type, int64_t count, const void* values) const;
  bool refer(void* descriptor, int attribute, void* other) const;
  bool finalize(void* descriptor) const { return f_.finalize(descriptor) == 0; }
  void* tensor(const LibraryTensor& t, int64_t id, int type, size_t axes, bool is_virtual);
  bool pointwise(int mode, void* x, void* b, void* y);
  bool build(const LibraryConvolution& c);
  bool is_exact(void* config, ElementType type);
  bool fits(void* plan) const;
  bool choose(int heuristic, ElementType type);

  const CudnnFunctions& f_;
  std::shared_ptr<void> owner_;  // of the handle
  void* handle_;
  std::vector<void*> made_;
  std::vector<void*> operations_;
  void* graph_ = nullptr;
  void* plan_ = nullptr;
  bool kept_ = false;
};

}  // namespace lathe::gpu
