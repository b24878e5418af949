// SPDX-License-Identifier: MIT
// Expected outputs of --expected.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"
#include "tensor/box.h"

namespace lathe::cli {

// The arrays of an .npz file, one per output of the program; none where the file has none.
// InvalidArgument for a file that is not an .npz or has an unknown name.
std::vector<std::optional<Box>> read_expected(const std::string& path, const Program& program);

}  // namespace lathe::cli
