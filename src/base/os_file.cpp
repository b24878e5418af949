// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/error_reason.h"
#include "base/file_map.h"
#include "base/lfs_pointer.h"
#include "base/os_memory.h"

namespace lathe {
namespace {

std::string errno_text() { return std::generic_category().message(errno); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  int take() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::string_view kind_of_file(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "not a regular file";
  }
}

void check_path(const std::string& path) {
  check(!path.empty() && path.find('\0') == std::string::npos, ErrorKind::invalid_argument,
        "'{}' is not a valid file name: it is empty or contains a zero byte", escape(path));
}

// Without a sync of the directory, a power failure may undo the rename. Errors are ignored: the
// file itself is complete.
void synchronise_folder(const std::string& path) {
  const Descriptor folder(::open(parent_folder(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() >= 0) (void)::fsync(folder.number());
}

// All mapped bytes of the process, by their address.
struct LiveMaps {
  std::shared_mutex mutex;
  std::map<uintptr_t, const FileMap*> maps;
};

LiveMaps& live_maps() {
  static LiveMaps& maps = *new LiveMaps;  // maps may outlive statics
  return maps;
}

uintptr_t address_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data());
}

std::string version_of(const struct stat& status) {
  return fmt::format("{}:{}:{}:{}.{}:{}.{}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

void drop_pages(std::span<const std::byte> bytes) {
  discard_pages(const_cast<std::byte*>(bytes.data()), bytes.size());
}

// Calls visit(map, bytes in it) for the map in which these bytes begin, while it cannot close; the
// number of these bytes, 0 if there is none.
template <class F>
size_t visit_map(std::span<const std::byte> bytes, F visit) {
  LiveMaps& live = live_maps();
  const std::shared_lock lock(live.mutex);
  const auto after = live.maps.upper_bound(address_of(bytes));
  if (after == live.maps.begin()) return 0;
  const FileMap& map = *std::prev(after)->second;
  const uintptr_t end = address_of(map.bytes()) + map.bytes().size();
  if (end <= address_of(bytes)) return 0;
  const size_t size = std::min(bytes.size(), end - address_of(bytes));
  visit(map, bytes.first(size));
  return size;
}

}  // namespace

FileMap::FileMap(std::string path, std::string version, std::span<const std::byte> bytes,
                 int descriptor)
    : path_(std::move(path)), version_(std::move(version)), bytes_(bytes), descriptor_(descriptor) {
  if (bytes_.empty()) return;
  LiveMaps& live = live_maps();
  const std::lock_guard lock(live.mutex);
  live.maps.emplace(address_of(bytes_), this);
}

std::shared_ptr<const FileMap> FileMap::open(const std::string& path) {
  check_path(path);
  // Without O_NONBLOCK, opening a pipe without a writer blocks.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) {
    const char* reason = errno == ENOENT || errno == ENOTDIR ? reason::kMissingFile : nullptr;
    fail({ErrorKind::io, reason}, "cannot open '{}': {}", escape(path), errno_text());
  }
  struct stat status{};
  check(::fstat(file.number(), &status) == 0, ErrorKind::io, "cannot inspect '{}': {}",
        escape(path), errno_text());
  check(S_ISREG(status.st_mode), ErrorKind::invalid_argument, "'{}' is {}, expected a regular file",
        escape(path), kind_of_file(status.st_mode));
  const auto size = static_cast<size_t>(status.st_size);
  std::span<const std::byte> bytes;
  if (size > 0) {
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
    check(memory != MAP_FAILED, ErrorKind::io, "cannot map '{}' ({} bytes): {}", escape(path), size,
          errno_text());
    bytes = {static_cast<const std::byte*>(memory), size};
  }
  std::shared_ptr<const FileMap> map(
      new FileMap(path, version_of(status), bytes, size > 0 ? file.take() : -1));
  check_fetched(map->text(), path);
  return map;
}

FileMap::~FileMap() {
  if (bytes_.empty()) return;
  {
    LiveMaps& live = live_maps();
    const std::lock_guard lock(live.mutex);
    live.maps.erase(address_of(bytes_));
  }
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

void FileMap::release(std::span<const std::byte> bytes) const { drop_pages(bytes); }

void FileMap::read(std::span<const std::byte> bytes, std::byte* to) const {
  auto at = static_cast<size_t>(bytes.data() - bytes_.data());
  for (size_t left = bytes.size(); left > 0;) {
    const ssize_t count = ::pread(descriptor_, to, left, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    check(count >= 0, ErrorKind::io, "cannot read '{}' at {}: {}", escape(path_), at, errno_text());
    check(count > 0, ErrorKind::io, "'{}' had {} bytes when it was opened and ends at {} now",
          escape(path_), bytes_.size(), at);
    to += count;
    at += static_cast<size_t>(count);
    left -= static_cast<size_t>(count);
  }
}

void release_mapped(std::span<const std::byte> bytes) {
  visit_map(bytes, [](const FileMap&, std::span<const std::byte> own) { drop_pages(own); });
}

void read_mapped(std::span<const std::byte> from, std::byte* to) {
  const size_t read = visit_map(
      from, [&](const FileMap& map, std::span<const std::byte> own) { map.read(own, to); });
  if (read < from.size()) std::memcpy(to + read, from.data() + read, from.size() - read);
}

std::string mapped_place(std::span<const std::byte> bytes) {
  std::string place;
  const size_t found =
      visit_map(bytes, [&](const FileMap& map, std::span<const std::byte> /*own*/) {
        place = fmt::format("{} at {}", map.version(), bytes.data() - map.bytes().data());
      });
  return found < bytes.size() ? "" : place;
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)), target_(path_) {
  check_path(path_);
  struct stat status{};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    check(!S_ISDIR(status.st_mode), ErrorKind::invalid_argument,
          "cannot write '{}': it is a folder, expected a file", escape(path_));
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_with_errno("cannot open");
    return;
  }
  if (exists) {
    if (::access(path_.c_str(), W_OK) != 0) fail_with_errno("cannot write");
    target_ = real_path(path_);
  }
  open_temporary();
  if (exists) (void)::fchmod(descriptor_, status.st_mode & 07777);
}

void FileWriter::open_temporary() {
  static std::atomic<unsigned> counter{0};
  do {  // a killed process may have left a file of this name
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), ++counter);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    temporary_.clear();
    fail_with_errno("cannot create a file beside");
  }
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::fail_with_errno(std::string_view what) const {
  fail(ErrorKind::io, "{} '{}' after {} bytes: {}", what, escape(path_), written_, errno_text());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_with_errno("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_ += static_cast<size_t>(count);
  }
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void FileWriter::commit() {
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail_with_errno("cannot write");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_with_errno("cannot close");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with_errno("cannot rename to");
  temporary_.clear();
  synchronise_folder(target_);
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

bool file_exists(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::string> list_folder(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  check(folder != nullptr, ErrorKind::io, "cannot list '{}': {}", escape(path), errno_text());
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first{};
  struct stat second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::string real_path(const std::string& path) {
  check_path(path);
  const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(path.c_str(), nullptr),
                                                        std::free);
  check(resolved != nullptr, ErrorKind::io, "cannot find '{}': {}", escape(path), errno_text());
  return resolved.get();
}

std::string parent_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string join_path(const std::string& folder, std::string_view name) {
  std::string out = folder;
  if (!out.empty() && out.back() != '/') out += '/';
  return out.append(name);
}

bool is_within(std::string_view path, std::string_view folder) {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace lathe
