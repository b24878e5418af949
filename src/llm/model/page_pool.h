// SPDX-License-Identifier: MIT
// Pages of a group of KV caches, or slots of states of fixed shape. Each cache is one dense tensor
// [pages, …] in reserved address space, committed as pages are taken; a page has one id and one
// count of its users for all caches of the group.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "plan/device.h"

namespace lathe::llm {

class PagePool {
  struct Slab;
  struct Page {
    int32_t id = 0;
    Slab* slab = nullptr;
    std::atomic<int32_t> uses{0};
  };

 public:
  // `page_bytes`: of one page, for each cache. OutOfMemory without address space.
  PagePool(const Device& device, std::vector<int64_t> page_bytes);
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
    int32_t id() const { return page_ == nullptr ? -1 : page_->id; }
    // Equal for references to one page.
    const void* page() const { return page_; }
    bool shared() const { return uses() > 1; }
    int32_t uses() const { return page_->uses.load(std::memory_order_acquire); }
    void reset() noexcept;

   private:
    friend class PagePool;
    explicit Ref(Page* page) : page_(page) {}
    Page* page_ = nullptr;
  };

  // An unshared page with undefined content: of those not in use, one of a low id. Thread-safe.
  // OutOfMemory.
  Ref take();

  const Device& device() const { return device_; }
  size_t caches() const { return page_bytes_.size(); }
  int64_t capacity() const { return capacity_; }  // most pages
  // The first page of a cache: page `id` begins id · page_bytes(cache) behind it.
  std::byte* base(size_t cache) const { return static_cast<std::byte*>(ranges_[cache]->base()); }
  int64_t page_bytes(size_t cache) const { return page_bytes_[cache]; }
  std::byte* at(size_t cache, int32_t id) const {
    return base(cache) + int64_t{id} * page_bytes(cache);
  }

  // Ids are below this number, which grows.
  int64_t pages() const { return pages_.load(std::memory_order_acquire); }
  struct PageCopy {
    int32_t to;
    int32_t from;
  };
  // Copies pages of every cache, in one launch. Thread-safe.
  void copy(std::span<const PageCopy> pages) const;

  // A page of a cache as host memory: itself, or a copy of a device's page, which `write` stores
  // back at the end.
  class HostPage {
   public:
    enum class Access : uint8_t { read, write };
    HostPage(const PagePool& pool, size_t cache, int32_t id, Access access);
    ~HostPage() noexcept(false);
    HostPage(const HostPage&) = delete;
    HostPage& operator=(const HostPage&) = delete;
    std::byte* data() const { return data_; }

   private:
    const PagePool& pool_;
    size_t cache_;
    int32_t id_;
    Access access_;
    std::vector<std::byte> copy_{};
    std::byte* data_;
  };

  int64_t page_bytes() const { return all_bytes_; }  // of all caches
  int64_t live_pages() const { return live_.load(std::memory_order_relaxed); }
  // Committed bytes, pages not in use included.
  int64_t reserved_bytes() const;

 private:
  struct Slab {
    Slab(int64_t number, int64_t count, PagePool* owner);
    int64_t number;
    PagePool* pool;
    std::vector<Page> pages;
    std::vector<Page*> idle;
  };
  void reserve(int64_t pages);
  Slab& add_slab();
  void remove_slab(Slab& slab) noexcept;
  void give(Page* page) noexcept;

  const Device& device_;
  std::vector<int64_t> page_bytes_;
  int64_t all_bytes_ = 0;
  int64_t pages_per_slab_ = 0;
  int64_t capacity_ = 0;
  std::vector<std::unique_ptr<AddressRange>> ranges_;  // per cache
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> pages_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;  // by number; null: not committed
  int64_t committed_slabs_ = 0;
  std::vector<int64_t> free_numbers_;  // a heap, the lowest first
  std::vector<Slab*> open_;            // slabs with idle pages; an empty slab is first
  mutable std::mutex copying_;
  mutable std::unique_ptr<Stream> stream_;  // of copies; null before the first
  mutable std::vector<BlockCopy> blocks_;
};

}  // namespace lathe::llm
