// SPDX-License-Identifier: MIT
// Tables of RoPE: cos and sin of every position's angles, with all scalings of Transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "import/checkpoint/config.h"
#include "tensor/tensor.h"

namespace lathe::checkpoint {

struct RopeTables {
  Tensor cos;  // f32 [positions, rotated / 2]
  Tensor sin;
};

struct Rope {
  int64_t rotated = 0;  // elements of a head that are rotated; the first ones
  RopeTables tables;    // LongRoPE: of sequences up to `max_short`
  std::optional<RopeTables> long_tables;
  int64_t max_short = 0;  // tokens
};

// `parameters` is an object rope_parameters (one layer type's). `positions` are those that the
// model states, of which the tables have the first `rows`. `divisors`: factors of a GGUF file,
// which divide the frequencies; empty: none. Unsupported for an unknown rope_type.
Rope make_rope(const Config& parameters, int64_t head_size, int64_t positions, int64_t rows,
               const std::vector<double>& divisors = {});

// The context whose tables take at most 32 MiB and an eighth of the weights' bytes: configurations
// may state any. Tables by length are held twice, apart and joined.
int64_t longest_context(const Config& config, int64_t head_size, int64_t weight_bytes);

}  // namespace lathe::checkpoint
