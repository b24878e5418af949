// SPDX-License-Identifier: MIT
// What `lathe doctor` prints of GPUs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lathe::gpu {

// Rows of a name and its text: the devices of each vendor with its libraries, or why there are
// none.
std::vector<std::pair<std::string, std::string>> report();

// A table of what kernels of gpu:host touched so far, if it counts.
std::string counts();

}  // namespace lathe::gpu
