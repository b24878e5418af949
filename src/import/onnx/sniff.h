// SPDX-License-Identifier: MIT
// What a file that is no ONNX model seems to be, so that messages can say it.
#pragma once

#include <string_view>

namespace lathe::onnx {

// "an HTML page", "a zip archive", …; "" if nothing is known of such bytes.
std::string_view sniff(std::string_view bytes);

// Whether the beginning reads as ONNX's textual syntax: a header "<ir_version: …" or a graph
// "name (…) => (…)".
bool is_onnx_text(std::string_view bytes);

}  // namespace lathe::onnx
