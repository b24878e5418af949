// SPDX-License-Identifier: MIT
// The memory bandwidth that bounds decoding.
#pragma once

#include "base/thread_pool.h"

namespace lathe::cli {

// Bytes per second of all threads reading a buffer larger than the caches; best of three. Takes
// about 0.2 s.
double measure_bandwidth(ThreadPool& pool);

}  // namespace lathe::cli
