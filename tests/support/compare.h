// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tensor/box.h"

namespace lathe::test {

// What differs, or "" where `actual` is `expected` within the tolerance: |a - b| <= tolerance *
// max(1, |b|); a NaN equals any NaN. Without a tolerance, that of the element type.
std::string difference(const Box& actual, const Box& expected, std::optional<double> tolerance);

std::string to_text(const Box& box);

}  // namespace lathe::test
