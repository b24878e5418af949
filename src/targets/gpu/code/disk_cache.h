// SPDX-License-Identifier: MIT
// What is made once per machine and kept on disk: compiled code, plans of libraries.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os_private_folder.h"

namespace lathe::gpu {

// Entries of their owner alone, of bounded size together. Thread-safe.
class DiskCache {
 public:
  // Empty: nothing is kept.
  explicit DiskCache(const std::string& folder) : folder_(folder) {}

  // `key`: all that the content depends on. Damaged entries are removed.
  std::optional<std::vector<std::byte>> read(std::string_view key) const;
  void write(std::string_view key, std::span<const std::byte> content);
  void remove(std::string_view key);

 private:
  PrivateFolder folder_;
  std::atomic<int64_t> written_{0};
};

}  // namespace lathe::gpu
