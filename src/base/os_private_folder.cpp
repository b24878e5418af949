// SPDX-License-Identifier: MIT
#include "base/os_private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace lathe {
namespace {

bool is_private(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }  // NOLINT: as the system's

 private:
  int number_;
};

}  // namespace

PrivateFolder::PrivateFolder(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  std::filesystem::create_directories(parent, error);
  mkdir(path_.c_str(), S_IRWXU);
  struct stat status{};
  usable_ = lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_private(status);
}

std::optional<std::vector<std::byte>> PrivateFolder::read(const std::string& name) const {
  if (!usable_) return std::nullopt;
  const Descriptor file(open((path_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !is_private(status)) {
    return std::nullopt;
  }
  std::vector<std::byte> content(static_cast<size_t>(status.st_size));
  size_t at = 0;
  while (at < content.size()) {
    const ssize_t count = ::read(file, content.data() + at, content.size() - at);
    if (count <= 0) return std::nullopt;
    at += static_cast<size_t>(count);
  }
  futimens(file, nullptr);  // the time of its last use
  return content;
}

bool PrivateFolder::write(const std::string& name, std::span<const std::byte> content) const {
  if (!usable_) return false;
  static std::atomic<unsigned> number{0};
  const std::string temporary = fmt::format("{}/.{}.{}.{}", path_, name, getpid(), ++number);
  const Descriptor file(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file < 0) return false;
  size_t at = 0;
  while (at < content.size()) {
    const ssize_t count = ::write(file, content.data() + at, content.size() - at);
    if (count <= 0) break;
    at += static_cast<size_t>(count);
  }
  const bool whole =
      at == content.size() && rename(temporary.c_str(), (path_ + "/" + name).c_str()) == 0;
  if (!whole) unlink(temporary.c_str());
  return whole;
}

void PrivateFolder::remove(const std::string& name) const noexcept {
  if (usable_) unlink((path_ + "/" + name).c_str());
}

void PrivateFolder::shrink(int64_t bytes) const noexcept try {
  if (!usable_) return;
  struct Entry {
    std::filesystem::file_time_type used;
    int64_t bytes;
    std::filesystem::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  for (const auto& file : std::filesystem::directory_iterator(path_)) {
    if (!file.is_regular_file()) continue;
    const auto size = static_cast<int64_t>(file.file_size());
    entries.push_back({file.last_write_time(), size, file.path()});
    total += size;
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= bytes) return;
    std::error_code error;
    std::filesystem::remove(entry.path, error);
    total -= entry.bytes;
  }
} catch (const std::exception&) {
  return;  // another process changes the folder; the next one shrinks it
}

std::string temporary_file() {
  std::string path = (std::filesystem::temp_directory_path() / "lathe-XXXXXX").string();
  const Descriptor file(mkostemp(path.data(), O_CLOEXEC));
  check(file >= 0, ErrorKind::io, "cannot create the temporary file {}", path);
  return path;
}

}  // namespace lathe
