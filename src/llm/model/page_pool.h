// SPDX-License-Identifier: MIT
// Pages of one size for KV caches and states. Reuses freed pages before it allocates, and returns
// unused memory to the system.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lathe::llm {

class PagePool {
  struct Slab;
  struct Page {
    std::byte* data = nullptr;
    Slab* slab = nullptr;
    std::atomic<int32_t> uses{0};
  };

 public:
  explicit PagePool(int64_t page_bytes);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Shared ownership of a page. Must not outlive the pool.
  class Ref {
   public:
    Ref() = default;
    Ref(const Ref& other) : page_(other.page_) {
      if (page_ != nullptr) page_->uses.fetch_add(1, std::memory_order_relaxed);
    }
    Ref(Ref&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
      std::swap(page_, other.page_);
      return *this;
    }
    ~Ref() { reset(); }

    explicit operator bool() const { return page_ != nullptr; }
    bool operator==(const Ref& other) const = default;
    std::byte* data() const { return page_ == nullptr ? nullptr : page_->data; }
    bool shared() const { return page_->uses.load(std::memory_order_acquire) > 1; }
    void reset() noexcept;

   private:
    friend class PagePool;
    explicit Ref(Page* page) : page_(page) {}
    Page* page_ = nullptr;
  };

  // An unshared page with undefined content. Thread-safe. OutOfMemory.
  Ref take();

  int64_t page_bytes() const { return page_bytes_; }
  int64_t live_pages() const { return live_.load(std::memory_order_relaxed); }
  // Reserved address space, pages not in use included.
  int64_t reserved_bytes() const;

 private:
  struct Slab {
    explicit Slab(PagePool* owner, int64_t count, size_t bytes);
    ~Slab();
    PagePool* pool;
    size_t bytes;
    std::byte* memory;
    std::vector<Page> pages;
    std::vector<Page*> idle;
  };
  void give(Page* page) noexcept;

  int64_t page_bytes_;
  int64_t pages_per_slab_;
  std::atomic<int64_t> live_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<Slab*> open_;  // slabs with idle pages; an empty slab is first
};

}  // namespace lathe::llm
