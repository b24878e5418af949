// SPDX-License-Identifier: MIT
// Folders that only their owner can read and write: caches whose content is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

class PrivateFolder {
 public:
  // Creates the folder and its parents. Nothing can be stored if that fails, if it is a link, or if
  // others own or can write it.
  explicit PrivateFolder(std::string path);
  bool usable() const { return usable_; }
  const std::string& path() const { return path_; }

  // The content of a file of the owner's alone; nullopt: none.
  std::optional<std::vector<std::byte>> read(const std::string& name) const;
  // Replaces a file; readers see the old or the new content. False on failure.
  bool write(const std::string& name, std::span<const std::byte> content) const;
  void remove(const std::string& name) const noexcept;
  // Removes the files that were read or written longest ago until the rest has at most `bytes`.
  void shrink(int64_t bytes) const noexcept;

 private:
  std::string path_;
  bool usable_ = false;
};

// Creates an empty file of the owner's alone in the system's folder for temporary files; Io if that
// fails.
std::string temporary_file();

}  // namespace lathe
