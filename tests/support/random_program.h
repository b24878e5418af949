// SPDX-License-Identifier: MIT
// Random programs of symbolic sizes whose results do not depend on rounding: what only continuous
// functions follow may be computed in any order.
#pragma once

#include <memory>
#include <random>

#include "ir/program.h"

namespace lathe::test {

std::unique_ptr<Program> make_random_program(std::mt19937_64& random);

}  // namespace lathe::test
