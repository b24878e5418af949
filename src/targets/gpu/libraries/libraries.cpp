// SPDX-License-Identifier: MIT
#include "targets/gpu/libraries/libraries.h"

#include <fmt/format.h>

#include "base/log.h"

namespace lathe::gpu {

bool Libraries::offered() const { return driver_.has_libraries(); }

void Libraries::warn(std::string_view name, std::string_view package,
                     const std::string& reason) const {
  log_warning(
      fmt::format("{} is missing ({}): Lathe's own kernels serve instead, which are slower; "
                  "install PyPI's {} or "
                  "name its folder by --gpu-libraries",
                  name, reason, package));
}

}  // namespace lathe::gpu
