// SPDX-License-Identifier: MIT
// Files: read-only maps, atomic writes, and path functions of the importers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

// A regular file mapped read-only. Only the pages that are read become resident.
class FileMap {
 public:
  // Io if the file cannot be opened, InvalidArgument for a folder, a pipe or a device.
  static std::shared_ptr<const FileMap> open(const std::string& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Makes these bytes non-resident; reading them again brings them back.
  void release(std::span<const std::byte> bytes) const;
  // Copies bytes of the map from the file: their pages do not become resident. Io if the file is
  // shorter now.
  void read(std::span<const std::byte> bytes, std::byte* to) const;
  // Differs for files, and for versions of a file.
  const std::string& version() const { return version_; }

 private:
  FileMap(std::string path, std::string version, std::span<const std::byte> bytes, int descriptor);
  std::string path_;
  std::string version_;
  std::span<const std::byte> bytes_;
  int descriptor_;  // of the file, below 0 if it is empty
};

// Makes those of these bytes non-resident that lie in a FileMap; other memory stays as it is.
void release_mapped(std::span<const std::byte> bytes);
// Copies bytes, those in a FileMap by its read().
void read_mapped(std::span<const std::byte> from, std::byte* to);
// The file's version and the offset of these bytes in it, the same in all its maps; "" if they do
// not lie in one FileMap.
std::string mapped_place(std::span<const std::byte> bytes);

// Writes a temporary file beside the target and renames it on commit(), so that readers never find
// a partial file. Without commit() no file remains. Existing pipes and devices are written in
// place.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();
  // The file that commit() renames; empty if the target is written in place, as devices are.
  const std::string& temporary() const { return temporary_; }

 private:
  void open_temporary();
  [[noreturn]] void fail_with_errno(std::string_view what) const;

  std::string path_;       // as passed by the caller
  std::string target_;     // with links resolved: they are not replaced
  std::string temporary_;  // empty when written in place
  int descriptor_ = -1;
  size_t written_ = 0;
};
void write_file(const std::string& path, std::string_view text);

bool file_exists(const std::string& path);  // of any kind
bool is_folder(const std::string& path);
// Names of the files in a folder, sorted.
std::vector<std::string> list_folder(const std::string& path);
// True if both paths exist and are the same file.
bool is_same_file(const std::string& a, const std::string& b);
// The absolute path without links; Io if the file does not exist.
std::string real_path(const std::string& path);
// "." for a name without a folder.
std::string parent_folder(const std::string& path);
std::string join_path(const std::string& folder, std::string_view name);
// Compares names only, so both must be real paths.
bool is_within(std::string_view path, std::string_view folder);

}  // namespace lathe
