// SPDX-License-Identifier: MIT
#include "llm/model/page_pool.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "base/os_system.h"

namespace lathe::llm {
namespace {

// Pages are committed and released in groups of about this size; an idle group costs little memory.
constexpr int64_t kSlabBytes = int64_t{256} << 10;
constexpr int64_t kMostPages = int64_t{1} << 30;
constexpr int64_t kUnknownMemory = int64_t{1} << 38;

// Bytes of pages that could ever be in use.
int64_t most_bytes(const Device& device) {
  if (device.memory_bytes() > 0) return device.memory_bytes();
  const int64_t system = device.host_accessible() ? system_memory().total_bytes : 0;
  return system > 0 ? system : kUnknownMemory;
}

}  // namespace

PagePool::Slab::Slab(int64_t index, int64_t count, PagePool* owner)
    : number(index), pool(owner), pages(static_cast<size_t>(count)) {
  idle.reserve(pages.size());
  for (size_t i = pages.size(); i-- > 0;) {
    pages[i].id = static_cast<int32_t>(number * count + static_cast<int64_t>(i));
    pages[i].slab = this;
    idle.push_back(&pages[i]);
  }
}

PagePool::PagePool(const Device& device, std::vector<int64_t> page_bytes)
    : device_(device), page_bytes_(std::move(page_bytes)) {
  for (const int64_t bytes : page_bytes_) all_bytes_ += bytes;
  const int64_t unit = std::max<int64_t>(all_bytes_, 1);
  pages_per_slab_ = std::clamp<int64_t>(kSlabBytes / unit, 1, 4096);
  const int64_t most = std::clamp<int64_t>(most_bytes(device) / unit, 1, kMostPages);
  reserve((most + pages_per_slab_ - 1) / pages_per_slab_ * pages_per_slab_);
}

PagePool::~PagePool() = default;

// Halves the number of pages while the system refuses as much address space.
void PagePool::reserve(int64_t pages) {
  for (;; pages = pages / 2 / pages_per_slab_ * pages_per_slab_) {
    try {
      ranges_.clear();
      for (const int64_t bytes : page_bytes_) ranges_.push_back(device_.reserve(pages * bytes));
      capacity_ = pages;
      return;
    } catch (const Error&) {
      if (pages < 2 * pages_per_slab_) throw;
    }
  }
}

PagePool::Slab& PagePool::add_slab() {
  const int64_t number =
      free_numbers_.empty() ? static_cast<int64_t>(slabs_.size()) : free_numbers_.front();
  const int64_t first = number * pages_per_slab_;
  const auto refuse = [&](std::string_view cause) {
    fail(ErrorKind::out_of_memory,
         "cannot allocate {} bytes of state beside the {} bytes of {} pages: close or shorten "
         "sequences{}{}",
         pages_per_slab_ * all_bytes_, live_pages() * all_bytes_, live_pages(),
         cause.empty() ? "" : ": ", cause);
  };
  if (first + pages_per_slab_ > capacity_) refuse("");
  auto slab = std::make_unique<Slab>(number, pages_per_slab_, this);
  // Reserve now: the release of a page must not allocate.
  const size_t most = slabs_.size() + 1;
  if (open_.capacity() < most) open_.reserve(2 * most);
  if (free_numbers_.capacity() < most) free_numbers_.reserve(2 * most);
  if (slabs_.capacity() < most) slabs_.reserve(2 * most);
  try {
    for (size_t i = 0; i < page_bytes_.size(); ++i) {
      ranges_[i]->commit(first * page_bytes_[i], pages_per_slab_ * page_bytes_[i]);
    }
  } catch (const Error& error) {
    refuse(error.what());
  }
  if (free_numbers_.empty()) {
    slabs_.emplace_back();
  } else {
    std::ranges::pop_heap(free_numbers_, std::greater());
    free_numbers_.pop_back();
  }
  ++committed_slabs_;
  pages_.store(std::max(pages_.load(), first + pages_per_slab_), std::memory_order_release);
  open_.push_back(slab.get());
  return *(slabs_[static_cast<size_t>(number)] = std::move(slab));
}

void PagePool::remove_slab(Slab& slab) noexcept {
  const int64_t first = slab.number * pages_per_slab_;
  for (size_t i = 0; i < page_bytes_.size(); ++i) {
    ranges_[i]->release(first * page_bytes_[i], pages_per_slab_ * page_bytes_[i]);
  }
  free_numbers_.push_back(slab.number);
  std::ranges::push_heap(free_numbers_, std::greater());
  --committed_slabs_;
  slabs_[static_cast<size_t>(slab.number)] = nullptr;
}

PagePool::Ref PagePool::take() {
  const std::lock_guard lock(mutex_);
  Slab& slab = open_.empty() ? add_slab() : *open_.back();
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
    remove_slab(slab);
  } else {
    std::swap(*own, open_.front());
  }
}

int64_t PagePool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return committed_slabs_ * pages_per_slab_ * all_bytes_;
}

void PagePool::Ref::reset() noexcept {
  Page* page = std::exchange(page_, nullptr);
  if (page != nullptr && page->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    page->slab->pool->give(page);
  }
}

void PagePool::copy(std::span<const PageCopy> pages) const {
  const std::lock_guard lock(copying_);
  blocks_.clear();
  for (size_t i = 0; i < caches(); ++i) {
    for (const PageCopy& page : pages) {
      blocks_.push_back({at(i, page.to), at(i, page.from), static_cast<size_t>(page_bytes(i))});
    }
  }
  if (stream_ == nullptr) stream_ = device_.make_stream();
  stream_->copy_blocks(blocks_);
  stream_->synchronize();
}

PagePool::HostPage::HostPage(const PagePool& pool, size_t cache, int32_t id, Access access)
    : pool_(pool), cache_(cache), id_(id), access_(access), data_(pool.at(cache, id)) {
  if (pool.device().host_accessible()) return;
  copy_.resize(static_cast<size_t>(pool.page_bytes(cache)));
  const std::unique_ptr<Stream> stream = pool.device().make_stream();
  stream->copy(copy_.data(), data_, copy_.size());
  stream->synchronize();
  data_ = copy_.data();
}

PagePool::HostPage::~HostPage() noexcept(false) {
  if (access_ == Access::read || copy_.empty()) return;
  const std::unique_ptr<Stream> stream = pool_.device().make_stream();
  stream->copy(pool_.at(cache_, id_), copy_.data(), copy_.size());
  stream->synchronize();
}

}  // namespace lathe::llm
