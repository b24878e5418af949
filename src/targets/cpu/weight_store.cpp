// SPDX-License-Identifier: MIT
#include "targets/cpu/weight_store.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/interrupt.h"
#include "import/compiled/stored_form.h"
#include "ir/literal.h"
#include "plan/given_packings.h"
#include "plan/packing_observer.h"
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
  std::atomic<int64_t> packed{0};
};

Store& store() {
  static Store instance;
  return instance;
}

// Compiled files do not have them: kernels would have to check each.
bool holds_indices(const std::string& packing_id) { return packing_id.ends_with(", gathered"); }

// Compiled file of the sources; null: none.
const StoredConstants* file_of(std::span<const Tensor* const> sources) {
  for (const Tensor* source : sources) {
    if (source == nullptr) continue;
    if (const StoredConstants* file = stored_constants(*source)) return file;
  }
  return nullptr;
}

// Sources in mapped files are the same where they lie in the same place: their bytes are not
// hashed.
std::string key_of_mapped(std::span<const Tensor* const> sources, const std::string& packing_id) {
  std::string key = packing_id;
  bool any = false;
  for (const Tensor* source : sources) {
    key += " | ";
    if (source == nullptr) continue;
    const std::string place = mapped_place(*source);
    if (place.empty()) return "";
    key += fmt::format("{} {}", place, to_string(source->type(), source->dims()));
    any = true;
  }
  return any ? key : "";
}

std::string key_of(std::span<const Tensor* const> sources, const std::string& packing_id) {
  std::vector<uint64_t> hashes;
  for (const Tensor* source : sources) {
    Literal literal;
    if (source != nullptr) literal.tensor = *source;
    hashes.push_back(source == nullptr ? 0 : literal.hash());
  }
  return packing_key(packing_id, hashes);
}

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

// The weights as the program has them; null if it has none.
std::shared_ptr<const PackedWeights> given_weights(std::span<const Tensor* const> sources,
                                                   const std::string& packing_id, size_t bytes) {
  const Tensor given = GivenPackings::find(packing_id, sources, bytes);
  constexpr uintptr_t kAlign = 64;
  if (given.data() == nullptr || reinterpret_cast<uintptr_t>(given.data()) % kAlign != 0) {
    return nullptr;
  }
  const auto owner = std::make_shared<const Tensor>(given);
  return std::make_shared<const PackedWeights>(std::shared_ptr<const void>(owner, given.data()),
                                               bytes);
}

// The weights as the file has them; null if it has none.
std::shared_ptr<const PackedWeights> stored_weights(const StoredConstants& file,
                                                    const std::string& key, size_t bytes) {
  std::shared_ptr<const void> stored = file.packed(key, bytes);
  if (stored == nullptr) return nullptr;
  // Sessions check what planning requested; runs that pack for a new shape do so here.
  if (!PlanningThreads::planning()) file.check_requested(nullptr);
  return std::make_shared<const PackedWeights>(std::move(stored), bytes);
}

std::shared_ptr<const PackedWeights> find_or_pack(std::span<const Tensor* const> sources,
                                                  const std::string& packing_id, size_t bytes,
                                                  const PackWeights& pack) {
  const StoredConstants* file = file_of(sources);
  std::string key = file == nullptr ? key_of_mapped(sources, packing_id) : "";
  if (key.empty()) key = key_of(sources, packing_id);
  const std::string own = file == nullptr ? "" : fmt::format(" in {:016x}", file->identity());
  const std::shared_ptr<Entry> entry = entry_of(key + own);
  check_interrupt();
  const std::lock_guard lock(entry->mutex);
  const ReadSources read(file == nullptr ? sources : std::span<const Tensor* const>());
  if (auto known = entry->weights.lock()) return known;
  if (file != nullptr) {
    // A file's indices are not trusted: weights that hold some are packed again.
    if (auto stored = holds_indices(packing_id) ? nullptr : stored_weights(*file, key, bytes)) {
      entry->weights = stored;
      return stored;
    }
    for (const Tensor* source : sources) {
      if (source != nullptr) restore_stored(*source);
    }
  }
  ThreadPool* threads = PlanningThreads::current();
  auto made = std::make_shared<const PackedWeights>(std::max<size_t>(bytes, 1), threads);
  check_interrupt();
  pack(made->data(), threads);
  ++store().packed;
  entry->weights = made;
  return made;
}

}  // namespace

std::shared_ptr<const PackedWeights> packed_weights(std::span<const Tensor* const> sources,
                                                    const std::string& packing_id, size_t bytes,
                                                    const PackWeights& pack) {
  check_interrupt();
  std::shared_ptr<const PackedWeights> weights;
  if (!holds_indices(packing_id)) weights = given_weights(sources, packing_id, bytes);
  if (weights == nullptr) weights = find_or_pack(sources, packing_id, bytes, pack);
  if (!holds_indices(packing_id)) {
    PackingObserver::report({packing_id, sources, weights, weights->data(), weights->bytes()});
  }
  return weights;
}

int64_t weights_packed() { return store().packed; }

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
