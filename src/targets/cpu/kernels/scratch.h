// SPDX-License-Identifier: MIT
// Memory of the calling thread for the duration of a chunk of work, or of a whole call.
#pragma once

#include <cstddef>

namespace lathe::cpu {

enum class Scratch { chunk, call };

// At least `bytes`, aligned to 64; the thread keeps it, and the next request of that use may move
// it.
void* thread_scratch(size_t bytes, Scratch use = Scratch::chunk);

}  // namespace lathe::cpu
