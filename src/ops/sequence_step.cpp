// SPDX-License-Identifier: MIT
#include "ops/sequence_step.h"

#include <algorithm>
#include <array>

namespace lathe {

namespace {
constexpr std::array<std::string_view, 3> kNames = {"appended", "shared", "cross"};
}  // namespace

std::string_view to_string(CacheRole role) { return kNames[static_cast<size_t>(role)]; }

CacheRole cache_role(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  check(at != kNames.end(), ErrorKind::invalid_argument,
        "cache is '{}', expected appended, shared or cross", escape(name));
  return static_cast<CacheRole>(at - kNames.begin());
}

SequenceStep& step_of(const OpOrigin& origin, const OperandViews& c, int64_t rows) {
  origin.check(c.step != nullptr, "{} tokens require a step that assigns them to sequences", rows);
  int64_t covered = 0;
  for (const StepItem& item : c.step->items()) {
    origin.check(item.begin == covered && item.count >= 0, "an item begins at row {}, expected {}",
                 item.begin, covered);
    covered += item.count;
  }
  origin.check(covered == rows, "the step's items have {} rows, its tensors {}", covered, rows);
  return *c.step;
}

}  // namespace lathe
