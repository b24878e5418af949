// SPDX-License-Identifier: MIT
// Lets compiled files receive the packed weights of a plan.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

struct ObservedPacking {
  const std::string& id;
  std::span<const Tensor* const> sources;  // null: not passed
  std::shared_ptr<const void> owner;       // keeps `data` alive
  const void* data = nullptr;
  size_t bytes = 0;
};

// During its lifetime, receives the packed weights that kernels made on this thread use. Packings
// whose bytes kernels use as indices are not reported.
class PackingObserver {
 public:
  using Observe = std::function<void(const ObservedPacking&)>;
  explicit PackingObserver(Observe observe);
  ~PackingObserver();
  PackingObserver(const PackingObserver&) = delete;
  PackingObserver& operator=(const PackingObserver&) = delete;

  static bool active();
  static void report(const ObservedPacking& packing);

 private:
  Observe observe_;
  PackingObserver* outer_;
};

}  // namespace lathe
