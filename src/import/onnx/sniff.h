// SPDX-License-Identifier: MIT
// Detects the format of a file that is not an ONNX model, for messages.
#pragma once

#include <string_view>

namespace lathe::onnx {

// "an HTML page", "a zip archive", …; "" for an unknown format.
std::string_view sniff(std::string_view bytes);

// True if the bytes begin like ONNX's textual syntax: with a header "<ir_version: …" or a graph
// "name (…) => (…)".
bool is_onnx_text(std::string_view bytes);

}  // namespace lathe::onnx
