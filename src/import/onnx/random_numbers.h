// SPDX-License-Identifier: MIT
// Random operators read a counter, one state of the program, which grows by 1 per run. Bodies
// capture it, mixed with the number of the iteration.
#pragma once

#include <span>

#include "import/onnx/scope.h"

namespace lathe::onnx {

// The name of the counter among captured values; no name of a file has it.
inline constexpr std::string_view kRandomCounter = "\x01random counter";

// True if a node draws random numbers, in a subgraph or a model-local function too.
bool draws_random(const Model& model, std::span<const Node> nodes);
// The counter in the scope's module.
Value* random_counter(Scope& scope);
// The counter of one iteration; `iteration` may be a vector of them.
Value* iteration_counter(Builder& b, Value* counter, Value* iteration);
// Adds the counter's next version to the main module, if a node read it.
void finish_random_counter(ImportState& state);

}  // namespace lathe::onnx
