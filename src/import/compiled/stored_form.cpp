// SPDX-License-Identifier: MIT
#include "import/compiled/stored_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lathe {
namespace {

std::vector<Unpack>& inverses() {
  static std::vector<Unpack> all;
  return all;
}

}  // namespace

std::string packing_key(const std::string& packing_id, std::span<const uint64_t> sources) {
  std::string key = packing_id;
  for (const uint64_t source : sources) key += fmt::format(" {:016x}", source);
  return key;
}

UnpackRegistration::UnpackRegistration(Unpack unpack) { inverses().push_back(unpack); }

bool unpack(const std::string& packing_id, std::span<const PackedSource> sources, size_t index,
            std::span<const std::byte> packed, void* out) {
  return std::ranges::any_of(
      inverses(), [&](Unpack each) { return each(packing_id, sources, index, packed, out); });
}

}  // namespace lathe
