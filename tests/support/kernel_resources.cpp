// SPDX-License-Identifier: MIT
#include "tests/support/kernel_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <regex>
#include <stdexcept>

namespace lathe::test {
namespace {

struct Multiprocessor {
  std::string_view architecture;
  int registers = 0;      // of a lane of a SIMD
  int register_step = 0;  // of an allocation
  int shared_bytes = 0;
  int shared_step = 0;
  int reserved_shared = 0;  // of a block
  int waves = 0;            // of a SIMD, at most
  int blocks = 0;
  int wave = 32;
  int simds = 4;
};
constexpr Multiprocessor kMultiprocessors[] = {
    {"sm_80", 512, 8, 164 * 1024, 128, 1024, 16, 32},
    {"sm_90", 512, 8, 228 * 1024, 128, 1024, 16, 32},
    {"sm_120", 512, 8, 100 * 1024, 128, 1024, 12, 24},
    {"gfx90a", 512, 8, 64 * 1024, 512, 0, 8, 32, 64},
    {"gfx942", 512, 8, 64 * 1024, 512, 0, 8, 32, 64},
    {"gfx1100", 1536, 24, 128 * 1024, 1024, 0, 16, 64},
};

int rounded(int value, int step) { return (value + step - 1) / step * step; }

double occupancy_of(const KernelResources& r, const std::string& architecture) {
  const auto* at = std::ranges::find(kMultiprocessors, architecture, &Multiprocessor::architecture);
  if (at == std::end(kMultiprocessors)) throw std::runtime_error("no limits of " + architecture);
  const int waves = (r.threads + at->wave - 1) / at->wave;  // of a block
  const int per_simd =
      std::min(at->waves, at->registers / rounded(std::max(r.registers, 1), at->register_step));
  int blocks = std::min(at->blocks, per_simd * at->simds / waves);
  const int shared = rounded(r.shared_bytes + at->reserved_shared, at->shared_step);
  if (shared > 0) blocks = std::min(blocks, at->shared_bytes / shared);
  return static_cast<double>(blocks * waves) / (at->waves * at->simds);
}

// The number that follows a name in clang's metadata.
int number_after(const std::string& text, const std::string& name) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex("\\." + name + ":\\s+(\\d+)"))) {
    throw std::runtime_error("no ." + name + " in the metadata");
  }
  return std::stoi(match[1]);
}

KernelResources read_metadata(const std::string& text) {
  KernelResources r;
  r.registers = number_after(text, "vgpr_count");
  r.scalars = number_after(text, "sgpr_count");
  r.frame_bytes = number_after(text, "private_segment_fixed_size");
  r.shared_bytes = number_after(text, "group_segment_fixed_size");
  r.threads = number_after(text, "max_flat_workgroup_size");
  return r;
}

template <class T>
T read_at(std::span<const std::byte> bytes, size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) throw std::runtime_error("a cut cubin");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Attributes of sections .nv.info: a format, a number, and 2 bytes or their count and as many.
void read_attributes(std::span<const std::byte> bytes, KernelResources& r) {
  constexpr uint8_t kSized = 4;
  constexpr uint8_t kMaxThreads = 0x05;
  constexpr uint8_t kFrameSize = 0x11;
  constexpr uint8_t kRegisters = 0x2f;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    const auto format = read_at<uint8_t>(bytes, at);
    const auto attribute = read_at<uint8_t>(bytes, at + 1);
    const auto size = read_at<uint16_t>(bytes, at + 2);
    if (format == kSized && attribute == kMaxThreads) r.threads = read_at<int>(bytes, at + 4);
    if (format == kSized && attribute == kFrameSize) {
      r.frame_bytes = std::max(r.frame_bytes, read_at<int>(bytes, at + 8));
    }
    if (format == kSized && attribute == kRegisters) {
      r.registers = std::max(r.registers, read_at<int>(bytes, at + 8));
    }
    at += 4 + (format == kSized ? size : 0);
  }
}

// Sections of a 64-bit ELF file.
KernelResources read_cubin(std::span<const std::byte> image) {
  KernelResources r;
  const auto table = read_at<uint64_t>(image, 0x28);
  const auto entry = read_at<uint16_t>(image, 0x3a);
  const auto count = read_at<uint16_t>(image, 0x3c);
  const auto names = read_at<uint16_t>(image, 0x3e);
  const auto offset_of = [&](size_t i) {
    return read_at<uint64_t>(image, table + i * entry + 0x18);
  };
  for (size_t i = 0; i < count; ++i) {
    const size_t header = table + i * entry;
    const auto at = offset_of(names) + read_at<uint32_t>(image, header);
    if (at >= image.size()) throw std::runtime_error("a cut cubin");
    const std::string_view rest(reinterpret_cast<const char*>(image.data()) + at,
                                image.size() - at);
    const std::string_view name = rest.substr(0, rest.find('\0'));
    const auto size = read_at<uint64_t>(image, header + 0x20);
    if (name.starts_with(".nv.shared.")) r.shared_bytes += static_cast<int>(size);
    if (name.starts_with(".nv.info")) {
      if (offset_of(i) + size > image.size()) throw std::runtime_error("a cut cubin");
      read_attributes(image.subspan(offset_of(i), size), r);
    }
  }
  if (r.registers == 0 || r.threads == 0) throw std::runtime_error("a cubin without attributes");
  return r;
}

}  // namespace

KernelResources resources_of(std::span<const std::byte> image, const std::string& architecture) {
  KernelResources r =
      architecture.starts_with("sm_")
          ? read_cubin(image)
          : read_metadata({reinterpret_cast<const char*>(image.data()), image.size()});
  r.occupancy = occupancy_of(r, architecture);
  return r;
}

}  // namespace lathe::test
