// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/vendor_library.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "base/os_environment.h"
#include "targets/gpu/settings.h"

namespace lathe::gpu {
namespace {

namespace fs = std::filesystem;

// The folders `lib` of Python's packages of NVIDIA below an environment's prefix.
void add_python_folders(const fs::path& prefix, std::vector<std::string>& out) {
  std::error_code error;
  for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      std::error_code absent;
      for (const auto& package :
           fs::directory_iterator(python.path() / packages / "nvidia", absent)) {
        out.push_back(package.path() / "lib");
      }
    }
  }
}

std::vector<std::string> folders() {
  std::vector<std::string> out;
  std::istringstream given(settings().libraries);
  for (std::string folder; std::getline(given, folder, ':');) {
    if (!folder.empty()) out.push_back(folder);
  }
  out.emplace_back("");  // the loader's path
  if (const auto prefix = environment_variable("VIRTUAL_ENV")) add_python_folders(*prefix, out);
  std::istringstream path(environment_variable("PATH").value_or(""));
  for (std::string folder; std::getline(path, folder, ':');) {
    std::error_code error;
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || !fs::exists(python, error)) continue;
    add_python_folders(fs::path(folder).parent_path(), out);
    break;
  }
  for (const char* usual :
       {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/rocm/lib"}) {
    out.emplace_back(usual);
  }
  return out;
}

}  // namespace

std::shared_ptr<const DynamicLibrary> open_vendor_library(std::span<const char* const> names,
                                                          std::string* reason) {
  for (const std::string& folder : folders()) {
    for (const char* name : names) {
      std::error_code error;
      const std::string path = folder.empty() ? name : folder + "/" + name;
      if (!folder.empty() && !fs::exists(path, error)) continue;
      // A library opened by its path does not find this companion beside it.
      static constexpr std::string_view kNvrtc = "libnvrtc.so";
      if (!folder.empty() && std::string_view(name).starts_with(kNvrtc)) {
        for (const auto& file : fs::directory_iterator(folder, error)) {
          if (file.path().filename().string().starts_with("libnvrtc-builtins.so")) {
            static std::vector<std::shared_ptr<const DynamicLibrary>> kept;
            if (auto opened = DynamicLibrary::open(file.path().string())) {
              kept.push_back(std::move(opened));
            }
          }
        }
      }
      std::string why;
      if (auto library = DynamicLibrary::open(path, &why)) return library;
      if (reason != nullptr) *reason = why;
    }
  }
  if (reason != nullptr && reason->empty()) {
    *reason = fmt::format(
        "{} is neither in --gpu-libraries (LATHE_GPU_LIBRARIES), in the loader's path nor in "
        "Python's packages",
        names[0]);
  }
  return nullptr;
}

}  // namespace lathe::gpu
