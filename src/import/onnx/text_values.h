// SPDX-License-Identifier: MIT
// Reads types and tensors of ONNX's textual syntax.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/tensor_proto.h"
#include "import/onnx/text_lexer.h"

namespace lathe::onnx {

// The memory of a textual model: the text and its unescaped strings.
struct TextMemory {
  std::string source;
  std::deque<std::string> unescaped;
  std::shared_ptr<const void> file;  // owns the text; null: `source` does
};

// True if the word begins a type: "float", "seq", …
bool is_type_word(std::string_view word);

ValueType parse_type(TextLexer& lexer, int depth = 0);

// The elements of a tensor of that type: { 1, 2 } or ["location": "file", …].
TensorData parse_tensor(TextLexer& lexer, const ValueType& type, std::string_view name,
                        const TensorSource& source);

}  // namespace lathe::onnx
