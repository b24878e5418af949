// SPDX-License-Identifier: MIT
#include "llm/model/page_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/os_memory.h"

namespace lathe::llm {
namespace {

// An idle slab of each page size costs little memory.
constexpr int64_t kSlabBytes = int64_t{256} << 10;
constexpr int64_t kSystemPage = 4096;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

PagePool::Slab::Slab(PagePool* owner, int64_t count, size_t size)
    : pool(owner),
      bytes(size),
      memory(static_cast<std::byte*>(reserve_pages(size))),
      pages(static_cast<size_t>(count)) {
  check(memory != nullptr, ErrorKind::out_of_memory,
        "cannot allocate {} bytes of state beside the {} bytes of {} pages: close or shorten "
        "sequences",
        size, owner->live_pages() * owner->page_bytes(), owner->live_pages());
  idle.reserve(pages.size());
  for (size_t i = pages.size(); i-- > 0;) {
    pages[i].data = memory + static_cast<int64_t>(i) * owner->page_bytes();
    pages[i].slab = this;
    idle.push_back(&pages[i]);
  }
}

PagePool::Slab::~Slab() {
  if (memory != nullptr) release_pages(memory, bytes);
}

PagePool::PagePool(int64_t page_bytes)
    : page_bytes_(std::max<int64_t>(round_up(page_bytes, 64), 64)),
      pages_per_slab_(std::max<int64_t>(kSlabBytes / page_bytes_, 1)) {}

PagePool::~PagePool() = default;

PagePool::Ref PagePool::take() {
  const std::lock_guard lock(mutex_);
  if (open_.empty()) {
    const int64_t bytes = round_up(page_bytes_ * pages_per_slab_, kSystemPage);
    // Reserve now: the release of a page must not allocate.
    if (open_.capacity() < slabs_.size() + 1) open_.reserve(2 * slabs_.size() + 1);
    slabs_.push_back(std::make_unique<Slab>(this, pages_per_slab_, static_cast<size_t>(bytes)));
    open_.push_back(slabs_.back().get());
  }
  Slab& slab = *open_.back();
  Page* page = slab.idle.back();
  slab.idle.pop_back();
  if (slab.idle.empty()) open_.pop_back();
  live_.fetch_add(1, std::memory_order_relaxed);
  page->uses.store(1, std::memory_order_relaxed);
  return Ref(page);
}

void PagePool::give(Page* page) noexcept {
  const std::lock_guard lock(mutex_);
  live_.fetch_sub(1, std::memory_order_relaxed);
  Slab& slab = *page->slab;
  if (slab.idle.empty()) open_.push_back(&slab);
  slab.idle.push_back(page);
  if (slab.idle.size() < slab.pages.size()) return;
  // Keeps one empty slab, used last.
  const auto own = std::ranges::find(open_, &slab);
  if (Slab& first = *open_.front(); &first != &slab && first.idle.size() == first.pages.size()) {
    open_.erase(own);
    slabs_.erase(std::ranges::find(slabs_, &slab, &std::unique_ptr<Slab>::get));
  } else {
    std::swap(*own, open_.front());
  }
}

int64_t PagePool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& slab : slabs_) bytes += static_cast<int64_t>(slab->bytes);
  return bytes;
}

void PagePool::Ref::reset() noexcept {
  Page* page = std::exchange(page_, nullptr);
  if (page != nullptr && page->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    page->slab->pool->give(page);
  }
}

}  // namespace lathe::llm
