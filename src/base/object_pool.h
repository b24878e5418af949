// SPDX-License-Identifier: MIT
// Objects that threads lend each other: whoever needs one takes an idle one or makes its own, and
// leaves it for the next.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace lathe {

template <class T>
class ObjectPool {
 public:
  ObjectPool() = default;
  ~ObjectPool() {
    for (std::atomic<T*>& kept : idle_) delete kept.load(std::memory_order_acquire);
  }
  ObjectPool(const ObjectPool&) = delete;
  ObjectPool& operator=(const ObjectPool&) = delete;

  // Null if none is idle.
  std::unique_ptr<T> take() {
    for (std::atomic<T*>& kept : idle_) {
      if (T* object = kept.exchange(nullptr, std::memory_order_acq_rel)) {
        return std::unique_ptr<T>(object);
      }
    }
    return nullptr;
  }

  // Beyond what is kept it is destroyed.
  void give(std::unique_ptr<T> object) noexcept {
    for (std::atomic<T*>& kept : idle_) {
      T* expected = nullptr;
      if (kept.compare_exchange_strong(expected, object.get(), std::memory_order_acq_rel)) {
        object.release();
        return;
      }
    }
  }

 private:
  static constexpr size_t kKept = 64;
  std::array<std::atomic<T*>, kKept> idle_{};
};

}  // namespace lathe
