// SPDX-License-Identifier: MIT
// Products of matrices by cuBLASLt.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os_library.h"
#include "targets/gpu/driver/driver.h"
#include "tensor/element_type.h"

namespace lathe::gpu {

// A matrix in row-major order. `transposed`: its columns are contiguous, not its rows.
struct LibraryMatrix {
  const void* data = nullptr;
  int64_t stride = 0;  // between rows; transposed: between columns
  int64_t batch = 0;   // between matrices
  bool transposed = false;
};

enum class Activation : uint8_t { none, relu, gelu_tanh };

// y = activation(alpha * a · b + residual + bias); y[m, n], not transposed.
struct LibraryProduct {
  ElementType type = ElementType::f32;  // of all matrices
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  LibraryMatrix a;
  LibraryMatrix b;
  LibraryMatrix y;
  LibraryMatrix residual;      // without data: none
  const void* bias = nullptr;  // n elements; null: none
  Activation activation = Activation::none;
  double alpha = 1;
};

class CublasLt {
 public:
  // Scratch of a product, of any alignment: what the library may use, and its alignment.
  static constexpr int64_t kUsedBytes = int64_t{32} << 20;
  static constexpr int64_t kWorkspaceBytes = kUsedBytes + 256;

  // Null if it cannot be opened; then `reason` states why.
  static std::unique_ptr<CublasLt> open(Driver& driver, std::string* reason);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  static bool computes(ElementType type);
  // Enqueues the product. False if the library has no kernel for it: then nothing is enqueued.
  bool run(StreamHandle stream, const LibraryProduct& product, void* workspace);
  std::string description() const;  // "cuBLASLt 13.1.0, /usr/lib/…"

 private:
  struct Functions;
  struct Choice;
  CublasLt(Driver& driver, std::shared_ptr<const DynamicLibrary> library, const Functions& f);
  std::unique_ptr<Choice> describe(const LibraryProduct& product) const;
  void find_algorithm(const LibraryProduct& product, Choice& choice) const;
  Choice& choose(const LibraryProduct& product);

  Driver& driver_;
  std::shared_ptr<const DynamicLibrary> library_;
  std::unique_ptr<const Functions> f_;
  void* handle_ = nullptr;
  std::mutex mutex_;  // a choice's description holds the bias of one call
  std::map<std::vector<int64_t>, std::unique_ptr<Choice>> choices_;
};

}  // namespace lathe::gpu
