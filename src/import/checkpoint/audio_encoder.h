// SPDX-License-Identifier: MIT
// The audio encoder of a speech model, and the keys and values of its output for the decoder.
#pragma once

#include <memory>

#include "import/checkpoint/checkpoint.h"

namespace lathe::checkpoint {

// Input audio_features f32 [batch, mel bins, frames]; results hidden_states [batch, positions,
// hidden], present_key_cross_N and present_value_cross_N, for each layer of the decoder.
std::unique_ptr<Program> import_audio_encoder(const Checkpoint& checkpoint);

}  // namespace lathe::checkpoint
