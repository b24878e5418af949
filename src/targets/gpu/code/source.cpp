// SPDX-License-Identifier: MIT
#include "targets/gpu/code/source.h"

#include <utility>

#include "base/error.h"

namespace lathe::gpu {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
#include "targets/gpu/kernels.inc"
};

}  // namespace

std::string_view kernel_text(std::string_view file) {
  for (const auto& [name, text] : kTexts) {
    if (name == file) return text;
  }
  fail(ErrorKind::internal, "no device code '{}'", file);
}

}  // namespace lathe::gpu
