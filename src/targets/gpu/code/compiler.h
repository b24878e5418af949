// SPDX-License-Identifier: MIT
// Compilers of device code: NVRTC, hipRTC, and clang for the host driver.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "targets/gpu/code/source.h"
#include "targets/gpu/driver/driver.h"

namespace lathe::gpu {

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual std::string id() const = 0;  // name, version and architecture
  // All that a module's image depends on: the compiler, its options, the text with the alias
  // header.
  virtual std::string key(const Source& source) const = 0;
  // The image of a module. Internal with the compiler's messages if the text has an error.
  // Thread-safe.
  virtual std::vector<std::byte> compile(const Source& source) const = 0;
};

// The compiler for a device's architecture. Device if there is none: the message states what to
// install.
std::unique_ptr<Compiler> make_compiler(Vendor vendor, const std::string& architecture);

// A compiler for an architecture that need not be present, to check code: NVRTC, or for AMD clang.
std::unique_ptr<Compiler> make_offline_compiler(Vendor vendor, const std::string& architecture);

}  // namespace lathe::gpu
