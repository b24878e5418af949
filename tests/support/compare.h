// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "tensor/box.h"

namespace lathe::test {

// The first difference, or "" if |a - b| <= tolerance * max(1, |b|) for all elements; a NaN equals
// any NaN. The default tolerance depends on the element type.
std::string difference(const Box& actual, const Box& expected, std::optional<double> tolerance);

std::string to_text(const Box& box);

}  // namespace lathe::test
