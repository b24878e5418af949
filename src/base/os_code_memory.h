// SPDX-License-Identifier: MIT
// Memory of generated machine code. No page of it is writable and executable at once.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lathe {

class CodeMemory {
 public:
  CodeMemory() = default;
  ~CodeMemory();
  CodeMemory(CodeMemory&& other) noexcept;
  CodeMemory& operator=(CodeMemory&& other) noexcept;

  // A copy of position-independent code that can be executed; empty if the system refuses.
  static CodeMemory map(std::span<const std::byte> code);

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// How code becomes executable here: "memfd", "mprotect"; empty: the system refuses.
std::string code_memory_method();

// For tests: all later requests are refused, or none by this.
void refuse_code_memory(bool refuse);

}  // namespace lathe
