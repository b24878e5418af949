// SPDX-License-Identifier: MIT
// A program in the formats of other tools.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe::cli {

std::string program_json(const Program& program);
std::string program_dot(const Program& program);  // Graphviz
// Drawn by Graphviz; Unsupported if Graphviz is not installed.
std::string program_svg(const Program& program);
// An ONNX model with a node of domain "lathe" per instruction, for viewers such as Netron. Literals
// above `embed_bytes` bytes stay in their file as external data.
std::string program_onnx(const Program& program, int64_t embed_bytes = int64_t{1} << 16);

}  // namespace lathe::cli
