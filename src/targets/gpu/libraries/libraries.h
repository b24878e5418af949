// SPDX-License-Identifier: MIT
// The vendor's libraries of one device, opened when they are first needed.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "targets/gpu/libraries/cublaslt.h"
#include "targets/gpu/libraries/cudnn.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {

class Libraries {
 public:
  // `cache` outlives them. `later` runs work on another thread, unless they end before.
  Libraries(Driver& driver, DiskCache& cache, Later later)
      : driver_(driver), cache_(cache), later_(std::move(later)) {}

  // Null if there is none; then Lathe's own kernels serve, and one warning states what that costs.
  CublasLt* cublaslt() {
    return get(cublaslt_, cublaslt_asked_, VendorLibrary::cublaslt,
               [this](std::string* reason) { return CublasLt::open(driver_, later_, reason); });
  }
  Cudnn* cudnn() {
    return get(cudnn_, cudnn_asked_, VendorLibrary::cudnn,
               [this](std::string* reason) { return Cudnn::open(driver_, cache_, reason); });
  }

 private:
  template <class T, class Open>
  T* get(std::unique_ptr<T>& library, std::once_flag& asked, VendorLibrary which, Open&& open) {
    std::call_once(asked, [&] {
      if (!offered()) return;
      std::string reason;
      library = open(&reason);
      if (library == nullptr) warn(which, reason);
    });
    return library.get();
  }
  bool offered() const;  // the vendor has such libraries
  void warn(VendorLibrary library, const std::string& reason) const;

  Driver& driver_;
  DiskCache& cache_;
  Later later_;
  std::once_flag cublaslt_asked_;
  std::once_flag cudnn_asked_;
  std::unique_ptr<CublasLt> cublaslt_;
  std::unique_ptr<Cudnn> cudnn_;
};

}  // namespace lathe::gpu
