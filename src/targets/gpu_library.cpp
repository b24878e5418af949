// SPDX-License-Identifier: MIT
#include "targets/gpu_library.h"

#include <charconv>
#include <filesystem>
#include <mutex>

#include "base/file_map.h"
#include "base/os_library.h"

namespace lathe {

// Test programs link the library's objects; others have the list of what the library takes.
namespace gpu {
[[gnu::weak]] const GpuLibrary& linked_library();
}
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const GpuHost lathe_gpu_host;
}

namespace {

constexpr const char* kFile = "liblathe_gpu.so";

struct Shared {
  std::once_flag opened;
  std::shared_ptr<const DynamicLibrary> file;  // stays open
  const GpuLibrary* library = nullptr;
  std::string reason;
  std::mutex mutex;  // of `settings`, and of `library` when it is set
  std::optional<gpu::Settings> settings;
};
Shared& shared() {
  static auto& made = *new Shared;
  return made;
}

GpuOpened start(const DynamicLibrary& file, const GpuLibrary** library) {
  auto* open = reinterpret_cast<OpenGpuLibrary*>(file.symbol("lathe_gpu_open"));
  return open == nullptr ? GpuOpened::other_build : open(lathe_gpu_host, library);
}

// Where the library may lie: beside this code, in the folder of libraries beside that of a program,
// both also where links lead, or in the loader's path.
std::vector<std::string> candidates() {
  const std::string named = DynamicLibrary::path_of(&lathe_gpu_host);
  std::error_code error;
  const std::string real = std::filesystem::canonical(named, error).string();
  std::vector<std::string> paths;
  for (const std::string& own : {named, real}) {
    if (own.empty()) continue;
    const std::string folder = own.substr(0, own.rfind('/') + 1);
    for (const char* libraries : {"", LATHE_LIBRARIES_FROM_PROGRAM "/", "../lib/"}) {
      std::string path = folder + libraries + kFile;
      if (file_exists(path)) paths.push_back(std::move(path));
    }
  }
  paths.emplace_back(kFile);
  return paths;
}

const GpuLibrary* open(Shared& at) {
  const GpuLibrary* library = nullptr;
  if (&lathe_gpu_host == nullptr) {
    at.reason = "this program was built without the GPU target (LATHE_GPU=OFF)";
    return nullptr;
  }
  for (const std::string& path : candidates()) {
    at.file = DynamicLibrary::open(path, &at.reason);
    if (at.file == nullptr) continue;
    GpuOpened status = start(*at.file, &library);
    if (status == GpuOpened::taken_by_another) {  // such as the plug-in of this process
      at.file = DynamicLibrary::open(FileMap::open(at.file->path())->bytes(), &at.reason);
      if (at.file != nullptr) status = start(*at.file, &library);
    }
    if (library != nullptr) return library;
    if (status == GpuOpened::other_build) at.reason = "it is of another build of Lathe";
    at.reason = fmt::format("{} is not usable: {}", path, at.reason);
    return nullptr;
  }
  at.reason =
      fmt::format("the GPU target is missing ({}): install {} beside lathe", at.reason, kFile);
  return nullptr;
}

const GpuLibrary* library(std::string* reason) {
  if (gpu::linked_library != nullptr) return &gpu::linked_library();
  Shared& at = shared();
  std::call_once(at.opened, [&] {
    const GpuLibrary* opened = open(at);
    const std::lock_guard lock(at.mutex);
    at.library = opened;
    if (at.library != nullptr && at.settings) at.library->set_settings(*at.settings);
  });
  if (at.library == nullptr && reason != nullptr) *reason = at.reason;
  return at.library;
}

}  // namespace

std::optional<GpuTargetName> parse_gpu_target(std::string_view text) {
  const size_t colon = text.find(':');
  GpuTargetName name{.vendor = text.substr(0, colon)};
  if (name.vendor != "gpu" && name.vendor != "cuda" && name.vendor != "hip") return std::nullopt;
  if (colon == std::string_view::npos) return name;
  const std::string_view rest = text.substr(colon + 1);
  if (name.vendor == "gpu" && rest == "host") {
    name.host = true;
    return name;
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), name.device);
  if (error != std::errc() || end != rest.data() + rest.size() || name.device < 0) {
    return std::nullopt;
  }
  return name;
}

bool is_gpu_target(std::string_view name) { return parse_gpu_target(name).has_value(); }

std::shared_ptr<const Target> find_gpu_target(std::string_view name, std::string* reason) {
  if (!is_gpu_target(name)) return nullptr;
  const GpuLibrary* opened = library(reason);
  return opened != nullptr ? opened->find_target(name, reason) : nullptr;
}

bool has_gpu_kernel(const Op& op) {
  const GpuLibrary* opened = library(nullptr);
  return opened != nullptr && opened->has_kernel(op);
}

void set_gpu_settings(const gpu::Settings& settings) {
  if (gpu::linked_library != nullptr) return gpu::linked_library().set_settings(settings);
  Shared& at = shared();
  const std::lock_guard lock(at.mutex);
  at.settings = settings;
  if (at.library != nullptr) at.library->set_settings(settings);
}

std::vector<std::pair<std::string, std::string>> gpu_report() {
  std::string reason;
  const GpuLibrary* opened = library(&reason);
  return opened != nullptr ? opened->report()
                           : std::vector<std::pair<std::string, std::string>>{{"gpu", reason}};
}

void stop_gpu_compilation() {
  if (gpu::linked_library != nullptr) return gpu::linked_library().stop();
  Shared& at = shared();
  const std::lock_guard lock(at.mutex);
  if (at.library != nullptr) at.library->stop();
}

std::string gpu_counts() {
  std::string reason;
  const GpuLibrary* opened = library(&reason);
  return opened != nullptr ? opened->counts() : reason + "\n";
}

}  // namespace lathe
