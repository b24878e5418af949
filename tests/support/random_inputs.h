// SPDX-License-Identifier: MIT
// Random values of symbols and random inputs of programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/box.h"

namespace lathe::test {

using Bindings = std::map<std::string, int64_t, std::less<>>;

// Random small values, within their ranges, of the symbols of main's parameters, that satisfy all
// guards; nullopt if many attempts fail.
std::optional<Bindings> bind_symbols(const Program& program, std::mt19937_64& random);

// Random elements: signed values, both zeros and, for floats, infinities and NaN; small integers.
Box random_box(const Type& type, const Bindings& bindings, std::mt19937_64& random);
std::vector<Box> random_inputs(const Program& program, const Bindings& bindings,
                               std::mt19937_64& random);

}  // namespace lathe::test
