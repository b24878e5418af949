// SPDX-License-Identifier: MIT
// The only function of liblathe_gpu. What the library's code calls of Lathe are stubs of the same
// names, which jump through a table (cmake/gpu_symbols.cmake writes both); `ops::records` is a
// symbol of its own, whose uses are moved to the host's records.
#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <string_view>

#include "targets/gpu_library.h"

extern "C" {
[[gnu::visibility("hidden")]] extern const void* lathe_gpu_imports[];
[[gnu::visibility("hidden")]] extern const size_t lathe_gpu_import_count;
[[gnu::visibility("hidden")]] extern const char lathe_gpu_stamp[];
// Where this library is loaded; the linker defines it, as <link.h>'s _DYNAMIC.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
}

namespace lathe {
namespace gpu {
const GpuLibrary& linked_library();
}
namespace {

constexpr std::string_view kRecords = "_ZN5lathe3ops7recordsE";

// Repeats what the loader did for the symbol, with another address.
void move_records(const Op* records) {
  const auto base = reinterpret_cast<uintptr_t>(__ehdr_start);
  uintptr_t relocations = 0;
  size_t bytes = 0;
  uintptr_t symbols = 0;
  uintptr_t names = 0;
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
    // Some loaders have added the base.
    const uintptr_t value = entry->d_un.d_ptr;
    const uintptr_t address = value < base ? base + value : value;
    if (entry->d_tag == DT_RELA) relocations = address;
    if (entry->d_tag == DT_RELASZ) bytes = value;
    if (entry->d_tag == DT_SYMTAB) symbols = address;
    if (entry->d_tag == DT_STRTAB) names = address;
  }
  const auto* const all = reinterpret_cast<const ElfW(Rela)*>(relocations);
  const auto* const table = reinterpret_cast<const ElfW(Sym)*>(symbols);
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) {
    const ElfW(Sym)& symbol = table[ELF64_R_SYM(all[i].r_info)];
    if (kRecords != reinterpret_cast<const char*>(names + symbol.st_name)) continue;
    const uintptr_t moved = reinterpret_cast<uintptr_t>(records) + all[i].r_addend;
    std::memcpy(reinterpret_cast<void*>(base + all[i].r_offset), &moved, sizeof(moved));
  }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] GpuOpened lathe_gpu_open(const GpuHost& host,
                                                                   const GpuLibrary** library);
GpuOpened lathe_gpu_open(const GpuHost& host, const GpuLibrary** library) {
  static std::atomic<const GpuHost*> owner{nullptr};
  if (std::strcmp(host.stamp, lathe_gpu_stamp) != 0) return GpuOpened::other_build;
  const GpuHost* none = nullptr;
  if (!owner.compare_exchange_strong(none, &host)) return GpuOpened::taken_by_another;
  std::memcpy(lathe_gpu_imports, host.functions, lathe_gpu_import_count * sizeof(const void*));
  move_records(host.records);
  *library = &gpu::linked_library();
  return GpuOpened::yes;
}

}  // namespace lathe
