// SPDX-License-Identifier: MIT
// Precompiled for the units of each instruction set. Each file still includes what it uses.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/gemm/brgemm_table.h"
#include "targets/cpu/kernels/gemm/epilogue_table.h"
#include "targets/cpu/kernels/simd/simd.h"
