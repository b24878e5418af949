// SPDX-License-Identifier: MIT
#include "import/checkpoint/held_as.h"

#include <fmt/format.h>

#include "ops/support/block_format.h"

namespace lathe::checkpoint {

std::string held_as(const StoredTensor& stored) {
  if (stored.quantised != nullptr) return stored.quantised->held_as();
  const BlockFormat* format = find_block_format(stored.type);
  if (format == nullptr && stored.rank() == 2) {
    if (stored.type == "BF16") return "bf16";
    if (stored.type == "F16") return "f16";
  }
  if (format == nullptr || stored.rank() != 2) return "f32";  // converted where it is not
  const SplitForm form(*format);
  return fmt::format("{}-bit codes, {} scales{} per {}", form.bits, to_string(form.scale_type),
                     format->has_minimum ? ", f32 zero points" : "", format->group);
}

}  // namespace lathe::checkpoint
