// SPDX-License-Identifier: MIT
#include "tests/support/guard_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "ops/evaluation.h"
#include "tensor/convert.h"

namespace lathe::test {

Tensor make_guarded_tensor(ElementType type, Dims dims) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto bytes = static_cast<size_t>(bytes_for(type, element_count(dims)));
  const size_t held = (bytes + page - 1) / page * page;
  void* memory =
      mmap(nullptr, held + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, ErrorKind::out_of_memory, "no memory for {} bytes", held + page);
  auto* const end = static_cast<std::byte*>(memory) + held;
  const std::shared_ptr<void> owner(memory, [held, page](void* all) { munmap(all, held + page); });
  check(mprotect(end, page, PROT_NONE) == 0, ErrorKind::internal, "cannot protect {} bytes", page);
  Dims strides = Tensor::dense_strides(dims);
  return {type, std::move(dims), std::move(strides), end - bytes, owner};
}

}  // namespace lathe::test
