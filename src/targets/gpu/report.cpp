// SPDX-License-Identifier: MIT
#include "targets/gpu/report.h"

#include <fmt/format.h>

#include "targets/gpu/driver/driver.h"
#include "targets/gpu/libraries/vendor_library.h"
#include "targets/gpu/target.h"

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

std::string counts() {
  constexpr double kMega = 1e6;
  std::string text =
      "launches         MB  fetched  by blocks  ways  kernel\n"
      "MB: read and written, each byte once per launch; fetched: sectors of 32 bytes of each "
      "wave's "
      "accesses, over\nthe bytes that the blocks need; by blocks: how many need a byte; ways: of "
      "accesses to a bank of shared memory\n";
  const auto target = std::dynamic_pointer_cast<const GpuTarget>(open_target("gpu:host", nullptr));
  if (target == nullptr) return text;
  for (const auto& [kernel, own] : traffic(target->gpu_device().driver())) {
    text += fmt::format("{:>8} {:>10.3f} {:>8.3f} {:>10.2f} {:>5.2f}  {}\n", own.launches,
                        static_cast<double>(own.distinct_bytes) / kMega, own.fetched(),
                        own.shared_by(), own.ways(), kernel);
  }
  return text;
}

}  // namespace lathe::gpu
