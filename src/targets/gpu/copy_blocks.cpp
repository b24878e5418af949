// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>

#include "targets/gpu/kernel.h"

namespace lathe::gpu {

void GpuStream::copy_blocks(std::span<const BlockCopy> blocks) {
  if (blocks.empty()) return;
  constexpr uint64_t kWidest = 16;
  uint64_t all = kWidest;
  size_t most = 1;
  for (const BlockCopy& block : blocks) {
    all |= reinterpret_cast<uintptr_t>(block.to) | reinterpret_cast<uintptr_t>(block.from) |
           block.bytes;
    most = std::max(most, block.bytes);
  }
  const uint64_t element = uint64_t{1} << std::countr_zero(all);
  const std::shared_ptr<const Code> code = device_.code().get(
      {"copy_blocks", fmt::format("#define ELEMENT {}\n{}", raw_name(static_cast<int64_t>(element)),
                                  kernel_text("copy_blocks.gpu"))});
  const auto bytes = static_cast<int64_t>(blocks.size_bytes());
  if (blocks_.data() == nullptr || blocks_.count() < bytes) {
    synchronize();  // who reads the shorter list
    blocks_ = make_tensor(device_, ElementType::u8,
                          {static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)))});
  }
  copy(blocks_.data(), blocks.data(), blocks.size_bytes());
  // Each thread moves some elements of a part.
  constexpr uint64_t kPart = uint64_t{kThreads} * 4;
  const auto parts = static_cast<int64_t>(std::clamp<uint64_t>(most / element / kPart, 1, 64));
  const int64_t count = std::ssize(blocks);
  Arguments arguments;
  arguments.add(blocks_.data());
  arguments.add(count);
  arguments.add(parts);
  const int64_t wide = device_.driver().limits().multiprocessors * int64_t{16};
  const auto grid = static_cast<uint32_t>(std::min(count * parts, wide));
  latest_ = Latest::other;
  device_.driver().launch(handle(), {code->function(), {grid, 1, 1}, kThreads, arguments.bytes()});
}

}  // namespace lathe::gpu
