// SPDX-License-Identifier: MIT
// Random bindings of symbols and random inputs for programs under test.
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

// Small values for the symbols that main's parameters mention, within their ranges, under which
// every guard on them holds; nullopt if many tries find none.
std::optional<Bindings> bind_symbols(const Program& program, std::mt19937_64& random);

// Numbers with signs, zeros of both signs and, for floats, infinities and NaN; small integers.
Box random_box(const Type& type, const Bindings& bindings, std::mt19937_64& random);
std::vector<Box> random_inputs(const Program& program, const Bindings& bindings,
                               std::mt19937_64& random);

}  // namespace lathe::test
