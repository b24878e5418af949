// SPDX-License-Identifier: MIT
// The configuration and tensor names of a GGUF file in the form of Transformers.
#pragma once

#include <string>
#include <vector>

#include "import/checkpoint/config.h"
#include "import/checkpoint/files/gguf.h"
#include "import/checkpoint/weights.h"

namespace lathe::checkpoint {

// Unsupported for an architecture without a builder, with the nearest name; for adapters, image
// projectors and vocabularies without a model.
Config read_gguf_config(const GgufFile& gguf);
// Renames the tensors as decoder.h names them, and sets the kinds of layers that they show.
void rename_gguf_tensors(Config& config, Weights& weights);
// Sets LongRoPE's factors, which files hold as tensors. Returns the divisors of RoPE's frequencies,
// which those of Llama 3 have.
std::vector<double> read_rope_factors(Config& config, const Weights& weights);

}  // namespace lathe::checkpoint
