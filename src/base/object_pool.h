// SPDX-License-Identifier: MIT
// A lock-free pool of idle objects shared by threads.
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

  // Returns an idle object, or null.
  std::unique_ptr<T> acquire() {
    for (std::atomic<T*>& kept : idle_) {
      if (T* object = kept.exchange(nullptr, std::memory_order_acq_rel)) {
        return std::unique_ptr<T>(object);
      }
    }
    return nullptr;
  }

  // Keeps the object for a later acquire(), or destroys it if the pool is full.
  void release(std::unique_ptr<T> object) noexcept {
    for (std::atomic<T*>& kept : idle_) {
      T* expected = nullptr;
      if (kept.compare_exchange_strong(expected, object.get(), std::memory_order_acq_rel)) {
        object.release();
        return;
      }
    }
  }

 private:
  static constexpr size_t kMaxIdle = 64;
  std::array<std::atomic<T*>, kMaxIdle> idle_{};
};

}  // namespace lathe
