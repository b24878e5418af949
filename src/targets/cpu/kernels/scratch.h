// SPDX-License-Identifier: MIT
// Memory of the calling thread for the duration of one chunk of work.
#pragma once

#include <cstddef>

namespace lathe::cpu {

// At least `bytes`, aligned to 64; the thread keeps it, and the next call may move it.
void* thread_scratch(size_t bytes);

}  // namespace lathe::cpu
