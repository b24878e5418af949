// SPDX-License-Identifier: MIT
// What a decoder will take, told by its program before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "ir/program.h"
#include "passes/pack_sequences.h"

namespace lathe::llm {

struct ModelSize {
  int64_t weight_bytes = 0;    // of all literals, as the files hold them
  int64_t row_bytes = 0;       // of caches, for a token
  int64_t sequence_bytes = 0;  // of states of fixed extents, for a sequence
  int64_t products = 0;        // multiplications by weights, for a token

  // Weights, and the caches of one sequence of so many tokens.
  int64_t bytes_at(int64_t tokens) const;
};

// `head_size`: of caches whose program leaves it open. `beside`: another program over the same
// states, which takes memory for weights that are not the first one's, too.
ModelSize measure_model(const Program& program, const DecoderInterface& names, int64_t head_size,
                        const Program* beside = nullptr);

// "512.3 MiB"
std::string bytes_text(int64_t bytes);
// One line for people: "weights 540.2 MiB, cache 45.0 KiB a token, …".
std::string to_string(const ModelSize& size, int64_t context_length);

// OutOfMemory if the weights cannot lie in the memory of this machine, or, with a limit above 0,
// if not even one token's caches can lie within it.
void check_memory(const ModelSize& size, int64_t limit, const std::string& name);

}  // namespace lathe::llm
