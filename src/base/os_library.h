// SPDX-License-Identifier: MIT
// Shared libraries opened at run time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lathe {

class DynamicLibrary {
 public:
  // Null if the library cannot be opened; `reason` then states why.
  static std::shared_ptr<const DynamicLibrary> open(const std::string& path,
                                                    std::string* reason = nullptr);
  // Opens a library whose file is in memory.
  static std::shared_ptr<const DynamicLibrary> open(std::span<const std::byte> file,
                                                    std::string* reason = nullptr);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  // The file of the library or program that contains an address; empty: unknown.
  static std::string path_of(const void* address);

  void* symbol(const char* name) const;  // null: none
  std::string path() const;              // of its file; empty: unknown

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace lathe
