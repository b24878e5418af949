// SPDX-License-Identifier: MIT
// Folders of which some or all files lie in memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// The bytes of a file.
struct MemoryFile {
  std::string_view text;
  std::shared_ptr<const void> owner;  // of the bytes; null: the caller keeps them

  static MemoryFile copy_of(std::string_view text) {
    auto copy = std::make_shared<const std::string>(text);
    return {*copy, copy};
  }
};

// By their names as seen from the folder.
using MemoryFiles = std::map<std::string, MemoryFile, std::less<>>;

// "./a//b" and "a/b" are one file, "a/" and "a" one folder.
std::string plain_name(std::string_view name);
// Those below a folder of the folder, by their names as seen from there. "." is the folder itself.
MemoryFiles files_below(const MemoryFiles& files, std::string_view folder);

class Folder {
 public:
  // Files in memory stand before those on disk; an empty path: all are in memory.
  explicit Folder(std::string path, const MemoryFiles& files = {});

  const std::string& path() const { return path_; }
  const MemoryFiles& files() const { return files_; }  // in memory
  // For messages: where the folder or a file of it lies.
  std::string place() const { return path_.empty() ? "<memory>" : path_; }
  std::string place(std::string_view name) const;

  bool has(std::string_view name) const;
  // Mapped where it lies on disk. Io if it is not there.
  MemoryFile open(std::string_view name) const;
  // What lies in the folder itself, sorted.
  std::vector<std::string> names() const;
  Folder below(std::string_view name) const;

 private:
  std::string path_;
  MemoryFiles files_;  // by plain names
};

}  // namespace lathe
