// SPDX-License-Identifier: MIT
// The GPU target on the host driver, with several orders of threads and widths of waves.
#pragma once

#include <memory>
#include <vector>

#include "base/os_environment.h"
#include "targets/gpu/target.h"
#include "targets/gpu_library.h"

namespace lathe::test {

// For the life of the program: plans refer to their devices.
inline const std::vector<std::shared_ptr<const Target>>& gpu_host_targets() {
  static const auto& targets = *new std::vector<std::shared_ptr<const Target>>([] {
    std::vector<std::shared_ptr<const Target>> made;
    // A card's target, where there is one.
    if (const auto given = environment_variable("TEST_GPU")) return made = {find_target(*given)};
    const std::string cache = gpu::CodeStore::default_folder();
    for (const gpu::HostDriverOptions& options :
         {gpu::HostDriverOptions{},
          gpu::HostDriverOptions{.wave = 64, .order = gpu::ThreadOrder::descending},
          gpu::HostDriverOptions{.order = gpu::ThreadOrder::random, .seed = 7}}) {
      made.push_back(
          std::make_shared<GpuTarget>("gpu:host", gpu::make_host_driver(options), 0, cache));
    }
    return made;
  }());
  return targets;
}

}  // namespace lathe::test
