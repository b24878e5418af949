// SPDX-License-Identifier: MIT
// Memory and arithmetic of a decoder, computed from its program before any allocation.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>

#include "ir/program.h"
#include "passes/decoder/pack_sequences.h"

namespace lathe {
class PackingSource;
}

namespace lathe::llm {

struct ModelSize {
  int64_t weight_bytes = 0;    // bytes of all literals: as stored, or as `--quantize` makes them
  int64_t encoder_bytes = 0;   // weight bytes of the encoder and embedding programs
  int64_t token_bytes = 0;     // bytes of KV caches per token
  int64_t sequence_bytes = 0;  // bytes of states of fixed shape per sequence
  int64_t products = 0;        // multiplications by weights per token

  int64_t all_weight_bytes() const;
  // Bytes of KV caches and other states of a sequence of `tokens` tokens.
  int64_t state_bytes(int64_t tokens) const;
  // Bytes of weights and states together.
  int64_t bytes_at(int64_t tokens) const;
};

// `head_size`: for KV caches whose program leaves it unknown. `beside`: another program over the
// same states; its additional weights are included.
ModelSize measure_model(const Program& program, const DecoderInterface& names, int64_t head_size,
                        const Program* beside = nullptr);

// "512.3 MiB"
std::string bytes_text(int64_t bytes);
// One line for display: "weights 540.2 MiB, KV cache 45.0 KiB per token, …".
std::string to_string(const ModelSize& size, int64_t context_length);

// Multiplications by weights per token and compute type: "int8", "bf16", "f32", "f64". Excludes the
// GEMM that computes the result `head`, which may run for fewer tokens.
std::map<std::string, int64_t, std::less<>> products_by_compute(const Program& program,
                                                                std::string_view head = {});

// Bytes of all literals, of those that are quantised when the plan is made without the floats that
// stay in the file; shared literals count once. Null programs are skipped.
int64_t weight_bytes(std::initializer_list<const Program*> programs);

// Bytes of the constants that one token reads: of products at most in their compute type, of the
// experts of a layer those that it selects, and none of the tables that it gathers from.
// `packing`: of the program's kernels, which may hold weights of 16 bits as stored and quantised
// ones in their compact form; null: none do.
int64_t step_weight_bytes(const Program& program, const PackingSource* packing);

// OutOfMemory if the weights and one token's KV caches exceed `available` bytes, or one token's KV
// caches exceed `limit` bytes. 0: no limit.
void check_memory(const ModelSize& size, int64_t limit, int64_t available, const std::string& name);

}  // namespace lathe::llm
