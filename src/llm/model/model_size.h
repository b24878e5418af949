// SPDX-License-Identifier: MIT
// What a decoder will take, told by its program before anything is allocated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>

#include "ir/program.h"
#include "passes/decoder/pack_sequences.h"

namespace lathe::llm {

struct ModelSize {
  int64_t weight_bytes = 0;    // of all literals, as the files hold them
  int64_t encoder_bytes = 0;   // the same of programs that run before it
  int64_t row_bytes = 0;       // of caches, for a token
  int64_t sequence_bytes = 0;  // of states of fixed extents, for a sequence
  int64_t products = 0;        // multiplications by weights, for a token

  int64_t all_weight_bytes() const;
  // Caches and other states of one sequence of so many tokens.
  int64_t state_bytes(int64_t tokens) const;
  // Both together.
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

// Multiplications by weights, for a row, by what they compute in: "int8", "bf16", "f32", "f64";
// without the product that gives the result `head`, which may have fewer rows.
std::map<std::string, int64_t, std::less<>> products_by_compute(const Program& program,
                                                                std::string_view head = {});

// Bytes of all literals, each that programs share once; null: no program.
int64_t weight_bytes(std::initializer_list<const Program*> programs);

// OutOfMemory if the weights and one token's caches are more than `available` bytes, or, with a
// limit above 0, if not even one token's caches can lie within it.
void check_memory(const ModelSize& size, int64_t limit, int64_t available, const std::string& name);

}  // namespace lathe::llm
