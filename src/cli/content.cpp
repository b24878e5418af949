// SPDX-License-Identifier: MIT
#include "cli/content.h"

#include "base/error.h"
#include "import/onnx/sniff.h"

namespace lathe::cli {

std::string describe_content(std::string_view bytes) {
  constexpr size_t kShown = 16;
  if (bytes.empty()) return "it is empty";
  const std::string_view seen = onnx::sniff(bytes);
  if (!seen.empty()) return fmt::format("it looks like {}", seen);
  return fmt::format("it begins with '{}'", escape(bytes.substr(0, kShown)));
}

}  // namespace lathe::cli
