// SPDX-License-Identifier: MIT
// Address space that becomes memory as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe {

// Reserves zero-filled address space without committing memory; null if there is none. A page is
// committed when it is first touched.
void* reserve_pages(size_t bytes);
void release_pages(void* pointer, size_t bytes) noexcept;

// Asks for large pages for whatever of them lies inside; nothing happens where there are none.
void prefer_large_pages(void* pointer, size_t bytes);
inline constexpr size_t kLargePage = size_t{2} << 20;

// Peak resident memory of this process in bytes; 0 where the system does not tell.
int64_t peak_resident_bytes();

}  // namespace lathe
