// SPDX-License-Identifier: MIT
#include "targets/gpu/report.h"

#include <fmt/format.h>

#include "targets/gpu/driver/driver.h"
#include "targets/gpu/libraries/vendor_library.h"

namespace lathe::gpu {

std::vector<std::pair<std::string, std::string>> report() {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Vendor vendor : {Vendor::cuda, Vendor::hip}) {
    int device = 0;
    std::string reason;
    for (;; ++device) {
      const std::shared_ptr<Driver> driver = open_native_driver(vendor, device, &reason);
      if (driver == nullptr) break;
      const DeviceLimits& limits = driver->limits();
      rows.emplace_back(
          "gpu", fmt::format("{}:{}: {}, {}, {:.1f} GiB, driver {}", to_string(vendor), device,
                             limits.name, limits.architecture,
                             static_cast<double>(limits.memory_bytes) / (int64_t{1} << 30),
                             limits.driver));
    }
    if (device == 0) {
      rows.emplace_back("gpu", fmt::format("{}: none: {}", to_string(vendor), reason));
      continue;
    }
    using enum VendorLibrary;
    const std::vector<VendorLibrary> libraries =
        vendor == Vendor::cuda ? std::vector{nvrtc, cublaslt, cudnn} : std::vector{hiprtc};
    for (const VendorLibrary library : libraries) rows.emplace_back("library", describe(library));
  }
  return rows;
}

}  // namespace lathe::gpu
