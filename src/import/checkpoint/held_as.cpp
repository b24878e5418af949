// SPDX-License-Identifier: MIT
#include "import/checkpoint/held_as.h"

#include <fmt/format.h>

#include "ops/support/block_format.h"

namespace lathe::checkpoint {

namespace {

bool is_expert(const StoredTensor& stored) {
  const auto has = [&](std::string_view part) {
    return stored.stored_name.find(part) != std::string::npos;
  };
  return has(".experts.") || has("_exps.");
}

std::string form_of(const StoredTensor& stored) {
  if (stored.quantised != nullptr) return stored.quantised->held_as();
  const BlockFormat* format = find_block_format(stored.type);
  if (format == nullptr && (stored.rank() == 2 || is_expert(stored))) {
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

}  // namespace

std::string held_as(const StoredTensor& stored) {
  const bool is_coded = stored.quantised != nullptr || find_block_format(stored.type) != nullptr;
  std::string form = form_of(stored);
  // Orders of inputs are in the codes' parts, which are not read for a description.
  if (is_coded && is_expert(stored)) form += "; f32 where gates and values differ in form";
  return form;
}

}  // namespace lathe::checkpoint
