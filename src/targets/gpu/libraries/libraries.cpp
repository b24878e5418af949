// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/libraries.h"

#include <fmt/format.h>

#include "base/log.h"

namespace lathe::gpu {

bool Libraries::offered() const { return driver_.has_libraries(); }

void Libraries::warn(VendorLibrary library, const std::string& reason) const {
  const VendorLibraryInfo& about = info(library);
  log_warning(
      fmt::format("{} is missing ({}): {}; install {} or name its folder by --gpu-libraries",
                  about.name, reason, about.without, about.package));
}

}  // namespace lathe::gpu
