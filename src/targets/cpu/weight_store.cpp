// SPDX-License-Identifier: MIT
#include "targets/cpu/weight_store.h"

#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/os_memory.h"
#include "base/thread_pool.h"
#include "ir/literal.h"
#include "plan/planning_threads.h"
#include "tensor/mapped.h"

namespace lathe::cpu {
namespace {

struct Entry {
  std::mutex mutex;  // held while packing: requests for the same weights wait
  std::weak_ptr<const PackedWeights> weights;
};

struct Store {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Entry>> entries;
};

Store& store() {
  static Store instance;
  return instance;
}

std::string key_of(std::span<const Tensor* const> sources, const std::string& packing_id) {
  std::string key = packing_id;
  for (const Tensor* source : sources) {
    Literal literal;
    if (source != nullptr) literal.tensor = *source;
    key += fmt::format(" {:016x}", source == nullptr ? 0 : literal.hash());
  }
  return key;
}

// Address space with room for large-page alignment; untouched pages use no memory.
size_t reserved_for(size_t bytes) { return bytes < kLargePage ? bytes : bytes + kLargePage; }

// Releases the mapped pages of sources that were read: nothing reads them again.
class ReadSources {
 public:
  explicit ReadSources(std::span<const Tensor* const> sources) : sources_(sources) {}
  ~ReadSources() {
    for (const Tensor* source : sources_) {
      if (source != nullptr) release_mapped(*source);
    }
  }
  ReadSources(const ReadSources&) = delete;
  ReadSources& operator=(const ReadSources&) = delete;

 private:
  std::span<const Tensor* const> sources_;
};

std::shared_ptr<Entry> entry_of(const std::string& key) {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  // Removes entries whose weights have been freed.
  std::erase_if(all.entries, [](const auto& item) {
    return item.second.use_count() == 1 && item.second->weights.expired();
  });
  std::shared_ptr<Entry>& entry = all.entries[key];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

}  // namespace

PackedWeights::PackedWeights(size_t bytes)
    : reserved_(reserve_pages(reserved_for(bytes))), data_(reserved_), bytes_(bytes) {
  check(data_ != nullptr, ErrorKind::out_of_memory, "no memory for {} bytes of packed weights",
        bytes);
  size_t room = reserved_for(bytes);
  if (room > bytes) std::align(kLargePage, bytes, data_, room);
  prefer_large_pages(data_, bytes);
}

PackedWeights::~PackedWeights() { release_pages(reserved_, reserved_for(bytes_)); }

std::shared_ptr<const PackedWeights> packed_weights(std::span<const Tensor* const> sources,
                                                    const std::string& packing_id, size_t bytes,
                                                    const PackWeights& pack) {
  check_interrupt();
  const std::shared_ptr<Entry> entry = entry_of(key_of(sources, packing_id));
  check_interrupt();
  const std::lock_guard lock(entry->mutex);
  const ReadSources read(sources);
  if (auto known = entry->weights.lock()) return known;
  auto made = std::make_shared<const PackedWeights>(std::max<size_t>(bytes, 1));
  // Places the pages on the memory nodes of the threads that read them.
  ThreadPool* threads = PlanningThreads::current();
  if (threads != nullptr) touch_first(threads, made->data(), static_cast<int64_t>(made->bytes()));
  check_interrupt();
  pack(made->data(), threads);
  entry->weights = made;
  return made;
}

WeightStoreSize weight_store_size() {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  WeightStoreSize size;
  for (const auto& [key, entry] : all.entries) {
    const auto held = entry->weights.lock();
    if (held == nullptr) continue;
    ++size.entries;
    size.bytes += held->bytes();
  }
  return size;
}

}  // namespace lathe::cpu
