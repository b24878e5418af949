// SPDX-License-Identifier: MIT
// Expected outputs from files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/box.h"

namespace lathe::cli {

// The arrays of an .npz file as expected outputs, by name.
std::vector<std::optional<Box>> read_expected(const std::string& path, const Program& program);

}  // namespace lathe::cli
