// SPDX-License-Identifier: MIT
// Reads models in ONNX's textual syntax, for tests:
//
//   <ir_version: 8, opset_import: ["" : 18]>
//   agraph (float[N, 3] x) => (float[N, 3] y)
//     <float[3] w = {1, 2, 3}>
//   { t = Mul(x, w)
//     y = LeakyRelu<alpha = 0.1>(t) }
//
// followed by functions: <domain: "my", opset_import: ["" : 18]> f <a> (x) => (y) { … }.
// Without ir_version the newest is used.
#pragma once

#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {

// `source.owner` keeps `text` alive; a null owner: the text is copied. InvalidModel with
// file:line:column, the line and a caret.
Model parse_text_model(std::string_view text, std::string_view origin = "<text>",
                       const TensorSource& source = {});

}  // namespace lathe::onnx
