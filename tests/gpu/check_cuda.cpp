// SPDX-License-Identifier: MIT
// Compiled by `make check-cuda` with NVIDIA's headers: our declarations of functions, structures
// and numbers fit theirs.
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>

#include <cstdint>
#include <type_traits>

#include "targets/gpu/libraries/cublaslt_numbers.h"
#include "targets/gpu/libraries/cudnn_numbers.h"

namespace lathe::gpu {
namespace {

// Types of one size and one class of registers; addresses of a device are pointers here.
template <class Ours, class Theirs>
constexpr bool passes_alike() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> == std::is_void_v<Theirs>;
  } else {
    constexpr bool both_scalar = std::is_scalar_v<Ours> && std::is_scalar_v<Theirs>;
    return both_scalar && sizeof(Ours) == sizeof(Theirs) &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct Calls;
template <class R, class... A, class S, class... B>
struct Calls<R(A...), S(B...)> {
  static constexpr bool alike() {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return passes_alike<R, S>() && (passes_alike<A, B>() && ...);
    } else {
      return false;
    }
  }
};

#define LATHE_FUNCTION(name, type, vendor) \
  static_assert(Calls<type, std::remove_pointer_t<decltype(&vendor)>>::alike(), #vendor);
#include "targets/gpu/libraries/cublaslt_functions.inc"
#include "targets/gpu/libraries/cudnn_functions.inc"
#undef LATHE_FUNCTION

#define LATHE_NUMBER(name, value, vendor) \
  static_assert((value) == static_cast<int>(vendor), #vendor);
LATHE_CUBLASLT_NUMBERS(LATHE_NUMBER)
LATHE_CUDNN_NUMBERS(LATHE_NUMBER)
#undef LATHE_NUMBER

static_assert(sizeof(CublasLtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLtHeuristic, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLtHeuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace
}  // namespace lathe::gpu
