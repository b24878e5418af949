// SPDX-License-Identifier: MIT
#include "targets/gpu/code/disk_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr int64_t kBetweenShrinks = 64;  // entries that are written

std::string hash_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// An entry is the hash of the content, and the content.
std::optional<std::vector<std::byte>> DiskCache::read(std::string_view key) const {
  constexpr size_t kHashBytes = 32;
  const std::string name = hash_of(key);
  const auto entry = folder_.read(name);
  if (!entry) return std::nullopt;
  const std::string_view text = text_of(*entry);
  if (text.size() > kHashBytes && text.substr(0, kHashBytes) == hash_of(text.substr(kHashBytes))) {
    return std::vector<std::byte>(entry->begin() + kHashBytes, entry->end());
  }
  folder_.remove(name);
  return std::nullopt;
}

void DiskCache::write(std::string_view key, std::span<const std::byte> content) {
  const std::string hash = hash_of(text_of(content));
  std::vector<std::byte> entry(hash.size() + content.size());
  std::memcpy(entry.data(), hash.data(), hash.size());
  std::ranges::copy(content, entry.begin() + static_cast<std::ptrdiff_t>(hash.size()));
  folder_.write(hash_of(key), entry);
  if (written_++ % kBetweenShrinks == 0) folder_.shrink(kMostBytes);
}

void DiskCache::remove(std::string_view key) { folder_.remove(hash_of(key)); }

}  // namespace lathe::gpu
