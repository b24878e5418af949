// SPDX-License-Identifier: MIT
// What this machine reaches at most, measured by the best of several ways: programs are compared
// with it, so none may exceed it.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "targets/target.h"

namespace lathe::cli {

// Bytes per second of all threads reading a buffer of `bytes` (16 to 256 MiB) again and again: sums
// over one stretch or over eight at once, with and without prefetch, and on `target` products of
// one row in f32 and in the compute types `computes`. Takes about a second.
double measure_bandwidth(const std::shared_ptr<const Target>& target,
                         const std::set<std::string>& computes, int64_t bytes, ThreadPool& pool);

// Multiplications per second of large products with constant weights, the best of several shapes,
// compiled for the target with compute type "int8", "bf16" or "f32": with the best instructions for
// it, AMX where the processor has it.
double measure_products(const std::shared_ptr<const Target>& target, std::string_view compute,
                        ThreadPool& pool);

}  // namespace lathe::cli
