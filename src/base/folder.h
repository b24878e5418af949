// SPDX-License-Identifier: MIT
// Folders with some or all files in memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct MemoryFile {
  std::string_view text;
  std::shared_ptr<const void> owner;  // keeps `text` alive; null: the caller does

  static MemoryFile copy_of(std::string_view text) {
    auto copy = std::make_shared<const std::string>(text);
    return {*copy, copy};
  }
};

// Files by path relative to the folder.
using MemoryFiles = std::map<std::string, MemoryFile, std::less<>>;

// Normalises a relative path: "./a//b" to "a/b", "a/" to "a".
std::string plain_name(std::string_view name);
// Files below a subfolder, by path relative to it. "." is the folder itself.
MemoryFiles files_below(const MemoryFiles& files, std::string_view folder);

// Whether a link in `folder` may lead to `target`; both are real paths. True inside the folder, and
// from snapshots/ to blobs/ of one entry of a Hugging Face cache.
bool may_link_to(const std::string& target, const std::string& folder);

class Folder {
 public:
  // Files in memory take precedence over files on disk; an empty path: all files are in memory.
  explicit Folder(std::string path, const MemoryFiles& files = {});

  const std::string& path() const { return path_; }
  const MemoryFiles& files() const { return files_; }  // in memory
  // Path of the folder or of a file in it, for messages.
  std::string place() const { return path_.empty() ? "<memory>" : path_; }
  std::string place(std::string_view name) const;

  bool has(std::string_view name) const;
  // Maps a file on disk, also through a link to elsewhere. Io if it does not exist.
  MemoryFile open(std::string_view name) const;
  // open() for files that are passed on: InvalidModel for a link that may not be followed.
  MemoryFile open_inside(std::string_view name) const;
  // Names of files and subfolders, sorted.
  std::vector<std::string> names() const;
  Folder below(std::string_view name) const;

 private:
  std::string path_;
  MemoryFiles files_;  // by plain_name()
};

}  // namespace lathe
