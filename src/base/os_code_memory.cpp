// SPDX-License-Identifier: MIT
#include "base/os_code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lathe {
namespace {

std::atomic<bool>& refused() {
  static std::atomic<bool> value{false};
  return value;
}

// A file that only this process sees, mapped after it was written: works where mprotect() may not
// make pages executable.
void* map_file(std::span<const std::byte> code) {
  const int file = memfd_create("lathe-code", MFD_CLOEXEC);
  if (file < 0) return MAP_FAILED;
  void* memory = MAP_FAILED;
  if (write(file, code.data(), code.size()) == static_cast<ssize_t>(code.size())) {
    memory = mmap(nullptr, code.size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  }
  close(file);
  return memory;
}

void* map_anonymous(std::span<const std::byte> code) {
  void* memory =
      mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return MAP_FAILED;
  std::memcpy(memory, code.data(), code.size());
  if (mprotect(memory, code.size(), PROT_READ | PROT_EXEC) == 0) return memory;
  munmap(memory, code.size());
  return MAP_FAILED;
}

}  // namespace

CodeMemory::~CodeMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

CodeMemory::CodeMemory(CodeMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

CodeMemory& CodeMemory::operator=(CodeMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

CodeMemory CodeMemory::map(std::span<const std::byte> code) {
  CodeMemory out;
  if (code.empty() || refused()) return out;
  void* memory = map_file(code);
  if (memory == MAP_FAILED) memory = map_anonymous(code);
  if (memory == MAP_FAILED) return out;
  __builtin___clear_cache(static_cast<char*>(memory), static_cast<char*>(memory) + code.size());
  out.data_ = static_cast<std::byte*>(memory);
  out.size_ = code.size();
  return out;
}

std::string code_memory_method() {
  constexpr std::array<std::byte, 1> kNothing{};
  if (refused()) return "";
  for (const auto& [map, name] :
       {std::pair{&map_file, "memfd"}, std::pair{&map_anonymous, "mprotect"}}) {
    void* memory = map(kNothing);
    if (memory == MAP_FAILED) continue;
    munmap(memory, kNothing.size());
    return name;
  }
  return "";
}

void refuse_code_memory(bool refuse) { refused() = refuse; }

}  // namespace lathe
