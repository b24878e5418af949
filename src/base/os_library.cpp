// SPDX-License-Identifier: MIT
#include "base/os_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/os_private_folder.h"

namespace lathe {
std::shared_ptr<const DynamicLibrary> DynamicLibrary::open(const std::string& path,
                                                           std::string* reason) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    if (reason != nullptr) *reason = dlerror();
    return nullptr;
  }
  return std::shared_ptr<const DynamicLibrary>(new DynamicLibrary(handle));
}

std::shared_ptr<const DynamicLibrary> DynamicLibrary::open(std::span<const std::byte> file,
                                                           std::string* reason) {
  // The loader takes files of equal numbers for one library, as anonymous ones may be.
  const std::string path = temporary_file();
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  size_t written = 0;
  while (descriptor >= 0 && written < file.size()) {
    const ssize_t count = write(descriptor, file.data() + written, file.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  if (descriptor >= 0) close(descriptor);
  std::shared_ptr<const DynamicLibrary> library;
  if (written == file.size()) {
    library = open(path, reason);
  } else if (reason != nullptr) {
    *reason = "no room for the library's file";
  }
  unlink(path.c_str());
  return library;
}

std::string DynamicLibrary::path_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  // A program's name may lack its folder.
  std::array<char, PATH_MAX> own;
  if (std::string_view(info.dli_fname).find('/') == std::string_view::npos) {
    const ssize_t bytes = readlink("/proc/self/exe", own.data(), own.size());
    if (bytes > 0) return {own.data(), static_cast<size_t>(bytes)};
  }
  return info.dli_fname;
}

DynamicLibrary::~DynamicLibrary() { dlclose(handle_); }

void* DynamicLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return "";
  return map->l_name;
}

}  // namespace lathe
