// SPDX-License-Identifier: MIT
// Virtual memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe {

// Reserves zero-filled address space; null on failure. A page is committed on first access.
void* reserve_pages(size_t bytes);
void release_pages(void* pointer, size_t bytes) noexcept;
// Releases the memory of the system pages that lie inside; their addresses stay reserved.
void discard_pages(void* pointer, size_t bytes) noexcept;

// Reserves address space that no one may access.
void* reserve_closed_pages(size_t bytes);
// Makes whole system pages readable and writable; false on failure.
bool open_pages(void* pointer, size_t bytes);
size_t system_page();

// Advises the system to use large pages inside the range.
void prefer_large_pages(void* pointer, size_t bytes);
inline constexpr size_t kLargePage = size_t{2} << 20;

// Peak resident memory of this process in bytes; 0 if unknown.
int64_t peak_resident_bytes();

}  // namespace lathe
