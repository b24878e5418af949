// SPDX-License-Identifier: MIT
// Products of matrices by cuBLASLt.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
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
  bool rows_vary = false;  // from run to run
};

// Runs work on another thread, one after the other.
using Later = std::function<void(std::function<void()>)>;

class CublasLt {
 public:
  // Scratch of a product, of any alignment: what the library may use, and its alignment.
  static constexpr int64_t kUsedBytes = int64_t{32} << 20;
  static constexpr int64_t kWorkspaceBytes = kUsedBytes + 256;

  // Null if it cannot be opened; then `reason` states why. Once a product whose rows vary has run,
  // algorithms for other numbers of rows are chosen, and their kernels loaded, `later`: before they
  // are needed.
  static std::unique_ptr<CublasLt> open(Driver& driver, Later later, std::string* reason);
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
  CublasLt(Driver& driver, Later later, std::shared_ptr<const DynamicLibrary> library,
           const Functions& f);
  std::unique_ptr<Choice> describe(const LibraryProduct& product) const;
  void find_algorithm(void* handle, const LibraryProduct& product, Choice& choice) const;
  // What algorithms depend on.
  static std::vector<int64_t> key_of(const LibraryProduct& product);
  Choice& choose(const LibraryProduct& product);
  void prepare_others(const LibraryProduct& product);
  void prepare(const LibraryProduct& product);
  void make_sample();
  void load_kernel(const LibraryProduct& product, const Choice& choice) const;
  // The library's status.
  int enqueue(void* handle, StreamHandle stream, const LibraryProduct& product, Choice& choice,
              const void* workspace, int64_t workspace_bytes) const;

  Driver& driver_;
  Later later_;
  std::shared_ptr<const DynamicLibrary> library_;
  std::unique_ptr<const Functions> f_;
  void* handle_ = nullptr;
  void* later_handle_ = nullptr;  // of the thread of later_
  StreamHandle later_stream_;
  void* sample_ = nullptr;  // memory of products that load kernels; null: there is none
  std::mutex mutex_;        // a choice's description holds the bias of one call
  std::map<std::vector<int64_t>, std::unique_ptr<Choice>> choices_;
  std::set<std::vector<int64_t>> prepared_;  // products of any number of rows
};

}  // namespace lathe::gpu
