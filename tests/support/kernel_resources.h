// SPDX-License-Identifier: MIT
// What a compiled kernel takes of a multiprocessor.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lathe::test {

struct KernelResources {
  int registers = 0;     // of a thread
  int scalars = 0;       // AMD: of a wave
  int frame_bytes = 0;   // of a thread, in memory: spilled registers and arrays
  int shared_bytes = 0;  // of a block
  int threads = 0;       // of a block, at most
  // Threads of a multiprocessor (AMD: of a compute unit) that run together, of those that could.
  double occupancy = 0;
};

// What an image of NVRTC ("sm_90") or a text of clang ("gfx942") takes.
KernelResources resources_of(std::span<const std::byte> image, const std::string& architecture);

}  // namespace lathe::test
