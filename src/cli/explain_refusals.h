// SPDX-License-Identifier: MIT
// What targets and passes refused in a plan, why, and the bytes that are moved for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain_rows.h"
#include "cli/explain_work.h"
#include "tensor/dim.h"

namespace lathe::cli {

// Work that a launch has because something was refused.
struct Refusal {
  enum class Kind : uint8_t { kernel, compute, fusion };
  Kind kind = Kind::kernel;
  size_t launch = 0;             // index of the row
  std::optional<size_t> reader;  // fusion: the launch that reads its result
  std::string reason;
  // What it reads and writes; fusion: the value between both, written and read. Over symbols that
  // have no value yet; nullopt: unknown.
  std::optional<Dim> bytes;
};
std::string_view to_string(Refusal::Kind kind);

// Launches on another target or with another compute type than requested, and pairs of adjacent
// launches that are not one kernel; those with the most bytes first, symbols without a value
// counting as their least one.
std::vector<Refusal> refusals_of(const Plan& plan, const std::vector<LaunchRow>& rows,
                                 const ValueSizes& sizes);

// One line for each reason, with the number of refusals and the sum of their bytes; `all`: one line
// for each refusal.
std::string refusals_text(const std::vector<Refusal>& refusals, const std::vector<LaunchRow>& rows,
                          bool all);

}  // namespace lathe::cli
