// SPDX-License-Identifier: MIT
// Memory between inaccessible pages: sanitizers see nothing of generated code. QEMU 7.2 reads
// masked lanes, so that TEST_EMULATED makes two vectors behind the memory accessible.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace lathe::codegen::test {

class GuardPages {
 public:
  // `bytes` that end at a guard page if `at_end`, else begin behind one.
  GuardPages(size_t bytes, bool at_end) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    const size_t inner = (bytes + page_ - 1) / page_ * page_ + page_;
    size_ = inner + 2 * page_;
    memory_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    std::byte* begin = static_cast<std::byte*>(memory_) + page_;
    if (mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0) std::abort();
    const size_t slack = std::getenv("TEST_EMULATED") == nullptr ? 0 : 64;
    data_ = at_end ? begin + inner - bytes - slack : begin;
  }
  ~GuardPages() { munmap(memory_, size_); }
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;

  std::byte* data() const { return data_; }

 private:
  size_t page_;
  size_t size_ = 0;
  void* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace lathe::codegen::test
