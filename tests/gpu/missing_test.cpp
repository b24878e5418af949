// SPDX-License-Identifier: MIT
// What is missing or too old is named, with what to do; without libraries the target runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "base/os_environment.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/code/compiler.h"
#include "targets/gpu/libraries/vendor_library.h"
#include "targets/gpu/settings.h"
#include "targets/gpu/target.h"
#include "targets/gpu_library.h"

namespace lathe::gpu {
namespace {

// Looks into `folder` first while it lives.
class Folder {
 public:
  explicit Folder(std::string folder) { set_settings({.libraries = std::move(folder)}); }
  ~Folder() { set_settings(before_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

 private:
  Settings before_ = settings();
};

std::string error_of_compiler() {
  try {
    make_offline_compiler(Vendor::cuda, "sm_90");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    return error.what();
  }
  return "no error";
}

TEST(GpuMissing, AnOldDriverIsNamed) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const Folder folder(OLD_LIBRARIES);
  std::string reason;
  EXPECT_EQ(open_native_driver(Vendor::cuda, 0, &reason), nullptr);
  EXPECT_EQ(reason, OLD_LIBRARIES
            "/libcuda.so has no function cuDriverGetVersion: update the driver (470 or newer)");
}

TEST(GpuMissing, ADriverWithoutOverlappingLaunchesServes) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const Folder folder(OLDER_LIBRARIES);
  const std::shared_ptr<const DynamicLibrary> library =
      open_vendor_library(VendorLibrary::cuda_driver, nullptr);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->symbol("cuLaunchKernelEx"), nullptr);
  std::string reason;
  EXPECT_EQ(open_native_driver(Vendor::cuda, 0, &reason), nullptr);
  EXPECT_EQ(reason, "NVIDIA's driver finds no device");
}

TEST(GpuMissing, AnOldCompilerIsNamed) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const Folder folder(OLD_LIBRARIES);
  EXPECT_EQ(error_of_compiler(), OLD_LIBRARIES
            "/libnvrtc.so has no function nvrtcCreateProgram: install a newer one (PyPI's "
            "nvidia-cuda-nvrtc)");
}

TEST(GpuMissing, NoCompilerIsNamed) {
  if (open_vendor_library(VendorLibrary::nvrtc, nullptr) != nullptr) {
    GTEST_SKIP() << "this machine has one";
  }
  const std::string text = error_of_compiler();
  EXPECT_TRUE(text.starts_with("NVRTC is missing (")) << text;
  EXPECT_TRUE(text.ends_with(
      "): install PyPI's nvidia-cuda-nvrtc or name its folder in LATHE_GPU_LIBRARIES"))
      << text;
}

// The file in the folder that was named, not those that are nowhere.
TEST(GpuMissing, ADamagedLibraryIsNamed) {
  const std::string path = std::filesystem::path(testing::TempDir()) / "damaged_libraries";
  std::filesystem::create_directory(path);
  std::ofstream(path + "/libcudnn.so.9") << "no library";
  const Folder folder(path);
  std::string reason;
  if (open_vendor_library(VendorLibrary::cudnn, &reason) != nullptr) {
    GTEST_SKIP() << "this machine has one";
  }
  EXPECT_TRUE(reason.starts_with(path + "/libcudnn.so.9: ")) << reason;
  std::filesystem::remove_all(path);
}

TEST(GpuMissing, AFolderThatIsNoneIsNamed) {
  const Folder folder("/nonexistent");
  std::string reason;
  if (open_vendor_library(VendorLibrary::cudnn, &reason) != nullptr) {
    GTEST_SKIP() << "this machine has one";
  }
  EXPECT_EQ(reason,
            "--gpu-libraries (LATHE_GPU_LIBRARIES) names the unknown folder '/nonexistent'");
}

TEST(GpuMissing, NoDriverIsNamed) {
  if (open_vendor_library(VendorLibrary::hip_driver, nullptr) != nullptr) {
    GTEST_SKIP() << "this machine has one";
  }
  std::string reason;
  EXPECT_EQ(find_gpu_target("hip", &reason), nullptr);
  EXPECT_TRUE(reason.starts_with("AMD's driver is missing (")) << reason;
  EXPECT_TRUE(reason.ends_with("): install ROCm's package hip-runtime-amd")) << reason;
}

TEST(GpuMissing, WithoutLibrariesItRunsAndWarnsOnce) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const Folder folder("");
  const auto target = std::make_shared<GpuTarget>("gpu:host", make_host_driver({.libraries = true}),
                                                  0, CodeStore::default_folder());
  std::vector<std::string_view> missing;  // another test may have opened its own
  for (const VendorLibrary library : {VendorLibrary::cublaslt, VendorLibrary::cudnn}) {
    if (open_vendor_library(library, nullptr) == nullptr) missing.push_back(info(library).name);
  }
  if (missing.empty()) GTEST_SKIP() << "this machine has all";
  constexpr const char* kText = R"(
program "both" stage imported {
  module @main(%x: f32[1, 2, 3, 3], %w: f32[4, 2, 1, 1], %m: f32[3, 3]) {
    %a = conv(%x, %w)
    %b = matmul(%a, %m)
    return %b as "b"
  }
})";
  const std::vector<Box> inputs{Box{Tensor(ElementType::f32, {1, 2, 3, 3})},
                                Box{Tensor(ElementType::f32, {4, 2, 1, 1})},
                                Box{Tensor(ElementType::f32, {3, 3})}};
  std::vector<std::string> warnings;
  set_log_sink([&](int level, std::string_view text) {
    if (level == 0) warnings.emplace_back(text);
  });
  for (int i = 0; i < 2; ++i) {
    Session session(compile(parse_program(kText), {.target = target}));
    session.run(inputs);
  }
  set_log_sink(nullptr);
  ASSERT_EQ(warnings.size(), missing.size());
  for (const std::string_view name : missing) {
    EXPECT_EQ(std::ranges::count_if(warnings,
                                    [&](const std::string& warning) {
                                      return warning.find(fmt::format("{} is missing (", name)) !=
                                             std::string::npos;
                                    }),
              1)
        << name;
  }
}

}  // namespace
}  // namespace lathe::gpu
