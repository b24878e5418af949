// SPDX-License-Identifier: MIT
// The vendor's libraries of one device, opened when they are first needed.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "targets/gpu/libraries/cublaslt.h"
#include "targets/gpu/libraries/cudnn.h"

namespace lathe::gpu {

class Libraries {
 public:
  explicit Libraries(Driver& driver) : driver_(driver) {}

  // Null if there is none; then Lathe's own kernels serve, and one warning states what that costs.
  CublasLt* cublaslt() { return get(cublaslt_, cublaslt_asked_, "cuBLASLt", "nvidia-cublas"); }
  Cudnn* cudnn() { return get(cudnn_, cudnn_asked_, "cuDNN", "nvidia-cudnn-cu13"); }

 private:
  template <class T>
  T* get(std::unique_ptr<T>& library, std::once_flag& asked, std::string_view name,
         std::string_view package) {
    std::call_once(asked, [&] {
      if (!offered()) return;
      std::string reason;
      library = T::open(driver_, &reason);
      if (library == nullptr) warn(name, package, reason);
    });
    return library.get();
  }
  bool offered() const;  // the vendor has such libraries
  void warn(std::string_view name, std::string_view package, const std::string& reason) const;

  Driver& driver_;
  std::once_flag cublaslt_asked_;
  std::once_flag cudnn_asked_;
  std::unique_ptr<CublasLt> cublaslt_;
  std::unique_ptr<Cudnn> cudnn_;
};

}  // namespace lathe::gpu
