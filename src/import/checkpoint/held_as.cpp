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
  if (format == nullptr || stored.rank() < 2) return "f32";  // converted where it is not
  const SplitForm plain(*format);
  const std::string_view minimums = format->has_minimum ? " and minimums" : "";
  const std::string_view codes = format->levels == nullptr ? "codes" : "indices of levels";
  if (format->has_byte_scales) {
    return fmt::format("{}-bit {}, byte scales{} per {}, f16 factors per {}", format->bits, codes,
                       minimums, format->group, format->elements);
  }
  // MXFP4 is not held in fewer bits than the plain form has.
  const bool compact = plain.scale_type == ElementType::f16;
  return fmt::format("{}-bit {}, {} scales{} per {}", compact ? format->bits : plain.bits,
                     compact ? codes : "codes", to_string(plain.scale_type), minimums,
                     format->group);
}

}  // namespace lathe::checkpoint
