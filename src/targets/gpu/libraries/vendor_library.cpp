// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/vendor_library.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <mutex>
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

std::string first_missing_folder() {
  std::istringstream given(settings().libraries);
  for (std::string folder; std::getline(given, folder, ':');) {
    std::error_code error;
    if (!folder.empty() && !fs::is_directory(folder, error)) {
      return fmt::format("--gpu-libraries (LATHE_GPU_LIBRARIES) names the unknown folder '{}'",
                         folder);
    }
  }
  return "";
}

// NVRTC opened by its path does not find this companion beside it.
void open_builtins(const std::string& folder) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const DynamicLibrary>> kept;
  const std::lock_guard lock(mutex);
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (!file.path().filename().string().starts_with("libnvrtc-builtins.so")) continue;
    if (auto opened = DynamicLibrary::open(file.path().string())) kept.push_back(std::move(opened));
  }
}

constexpr std::array kNvrtc{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr std::array kHiprtc{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"};
constexpr std::array kCublasLt{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
constexpr std::array kCudnn{"libcudnn.so.9", "libcudnn.so"};
constexpr std::array kCudaDriver{"libcuda.so.1", "libcuda.so"};
constexpr std::array kHipDriver{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
constexpr std::string_view kNoDevice = "its devices are not usable";
constexpr std::string_view kNoCompiler = "device code is not compiled: the target is not usable";

// As the library itself states it; empty if it does not.
std::string version_of(VendorLibrary which, const DynamicLibrary& library) {
  if (which == VendorLibrary::nvrtc || which == VendorLibrary::hiprtc) {
    int (*version)(int*, int*) = nullptr;
    const char* const name = which == VendorLibrary::nvrtc ? "nvrtcVersion" : "hiprtcVersion";
    int major = 0;
    int minor = 0;
    if (!find_function(library, name, version, nullptr) || version(&major, &minor) != 0) return "";
    return fmt::format("{}.{}", major, minor);
  }
  size_t (*version)() = nullptr;
  const bool cublaslt = which == VendorLibrary::cublaslt;
  const char* const name = cublaslt ? "cublasLtGetVersion" : "cudnnGetVersion";
  if (!find_function(library, name, version, nullptr)) return "";
  const size_t number = version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

const VendorLibraryInfo& info(VendorLibrary library) {
  static const std::array<VendorLibraryInfo, 6> all{
      {{"NVRTC", kNvrtc, "PyPI's nvidia-cuda-nvrtc", kNoCompiler},
       {"hipRTC", kHiprtc, "ROCm's package hiprtc", kNoCompiler},
       {"cuBLASLt", kCublasLt, "PyPI's nvidia-cublas",
        "Lathe's own kernels multiply matrices, which is slower"},
       {"cuDNN", kCudnn, "PyPI's nvidia-cudnn-cu13",
        "Lathe's own kernels convolve, which is slower"},
       {"NVIDIA's driver", kCudaDriver, "the driver of the card", kNoDevice},
       {"AMD's driver", kHipDriver, "ROCm's package hip-runtime-amd", kNoDevice}}};
  return all[static_cast<size_t>(library)];
}

std::string describe(VendorLibrary library) {
  const VendorLibraryInfo& about = info(library);
  std::string reason;
  const auto opened = open_vendor_library(library, &reason);
  if (opened == nullptr) {
    return fmt::format("{} is missing: {}; install {}", about.name, about.without, about.package);
  }
  return fmt::format("{} {}, {}", about.name, version_of(library, *opened), opened->path());
}

std::shared_ptr<const DynamicLibrary> open_vendor_library(VendorLibrary library,
                                                          std::string* reason) {
  // A file that is there but cannot be opened is the better reason.
  std::string damaged;
  std::string absent = first_missing_folder();
  for (const std::string& folder : folders()) {
    for (const char* name : info(library).files) {
      std::error_code error;
      const std::string path = folder.empty() ? name : folder + "/" + name;
      if (!folder.empty() && !fs::exists(path, error)) continue;
      if (!folder.empty() && library == VendorLibrary::nvrtc) open_builtins(folder);
      std::string why;
      if (auto opened = DynamicLibrary::open(path, &why)) return opened;
      std::string& first = folder.empty() ? absent : damaged;
      if (first.empty()) first = std::move(why);
    }
  }
  if (reason != nullptr) *reason = damaged.empty() ? absent : damaged;
  return nullptr;
}

}  // namespace lathe::gpu
