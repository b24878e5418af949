// SPDX-License-Identifier: MIT
// Every function that Lathe takes of a vendor's libraries is in those that are installed.
// TEST_VENDOR=cuda or hip demands the vendor's libraries.
#include <gtest/gtest.h>

#include <iostream>
#include <string_view>

#include "base/os_environment.h"
#include "base/os_library.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {
namespace {

struct Expected {
  VendorLibrary library;
  bool cuda;
  std::vector<const char*> functions;
};

#define LATHE_CUDA_FUNCTION(name, type, cuda) #cuda,
#define LATHE_HIP_FUNCTION(name, type, hip)
#define LATHE_FUNCTION(name, type, cuda, hip) #cuda,
const std::vector<const char*> kCudaDriver{
#include "targets/gpu/driver/native_functions.inc"
};
const std::vector<const char*> kNvrtc{
#include "targets/gpu/code/compiler_functions.inc"
};
#undef LATHE_CUDA_FUNCTION
#undef LATHE_HIP_FUNCTION
#undef LATHE_FUNCTION
#define LATHE_CUDA_FUNCTION(name, type, cuda)
#define LATHE_HIP_FUNCTION(name, type, hip) #hip,
#define LATHE_FUNCTION(name, type, cuda, hip) #hip,
const std::vector<const char*> kHipDriver{
#include "targets/gpu/driver/native_functions.inc"
};
const std::vector<const char*> kHiprtc{
#include "targets/gpu/code/compiler_functions.inc"
};
#undef LATHE_FUNCTION
#define LATHE_FUNCTION(name, type, vendor) #vendor,
const std::vector<const char*> kCublasLt{
#include "targets/gpu/libraries/cublaslt_functions.inc"
};
const std::vector<const char*> kCudnn{
#include "targets/gpu/libraries/cudnn_functions.inc"
};

TEST(GpuSymbols, OfInstalledLibrariesAreFound) {
  const std::string demanded = environment_variable("TEST_VENDOR").value_or("");
  size_t found = 0;
  for (const Expected& expected : {Expected{VendorLibrary::cuda_driver, true, kCudaDriver},
                                   {VendorLibrary::nvrtc, true, kNvrtc},
                                   {VendorLibrary::cublaslt, true, kCublasLt},
                                   {VendorLibrary::cudnn, true, kCudnn},
                                   {VendorLibrary::hip_driver, false, kHipDriver},
                                   {VendorLibrary::hiprtc, false, kHiprtc}}) {
    const VendorLibraryInfo& about = info(expected.library);
    std::string reason;
    const auto library = open_vendor_library(expected.library, &reason);
    if (library == nullptr) {
      EXPECT_NE(demanded, expected.cuda ? "cuda" : "hip") << about.name << ": " << reason;
      continue;
    }
    for (const char* name : expected.functions) {
      void (*function)() = nullptr;
      EXPECT_TRUE(find_function(*library, name, function, &reason)) << about.name << ": " << reason;
    }
    std::cout << about.name << ": " << expected.functions.size() << " functions found\n";
    found += expected.functions.size();
  }
  if (found == 0) GTEST_SKIP() << "no library of a vendor";
}

}  // namespace
}  // namespace lathe::gpu
