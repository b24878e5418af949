// SPDX-License-Identifier: MIT
// The GPU target lies in a library of its own, liblathe_gpu, which is opened when a program first
// needs it. Test programs link its objects.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "targets/gpu/settings.h"

namespace lathe {

class Target;

// The target of a name: "gpu" (the first vendor with a device), "cuda", "hip", with ":N" the device
// number N; "gpu:host" (for tests). Null for other names, and if there is no such device: then
// `reason` states why. One target per name and process.
std::shared_ptr<const Target> find_gpu_target(std::string_view name, std::string* reason);
// True if the name is one of a GPU target, present or not.
bool is_gpu_target(std::string_view name);
// False without the library.
bool has_gpu_kernel(const Op& op);
void set_gpu_settings(const gpu::Settings& settings);
// What `lathe doctor` prints of GPUs: rows of a name and its text.
std::vector<std::pair<std::string, std::string>> gpu_report();
// What `lathe perf --count` prints: a table of what kernels of gpu:host touched.
std::string gpu_counts();
// Ends the threads that compile device code, if any. A program calls it before it exits: then the
// vendors' libraries are torn down under them.
void stop_gpu_compilation();

struct GpuTargetName {
  std::string_view vendor;  // "gpu", "cuda", "hip"
  int device = 0;
  bool host = false;
};
std::optional<GpuTargetName> parse_gpu_target(std::string_view name);

// The functions of the library.
struct GpuLibrary {
  std::shared_ptr<const Target> (*find_target)(std::string_view name, std::string* reason);
  bool (*has_kernel)(const Op& op);
  void (*set_settings)(gpu::Settings settings);
  std::vector<std::pair<std::string, std::string>> (*report)();
  std::string (*counts)();
  void (*stop)();
};

// What the library takes of the program or library that opens it: cmake/gpu_symbols.cmake writes
// the list of functions, which both sides number alike.
struct GpuHost {
  const char* stamp;  // of the library's objects: it fits no other build
  const void* const* functions;
  Op* records;  // ops::records
};
enum class GpuOpened : int { yes, other_build, taken_by_another };
using OpenGpuLibrary = GpuOpened(const GpuHost& host, const GpuLibrary** library);

}  // namespace lathe
