// SPDX-License-Identifier: MIT
// Types and tensors of ONNX's textual syntax.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/tensor_proto.h"
#include "import/onnx/text_lexer.h"

namespace lathe::onnx {

// What a text's model keeps alive: the text itself and the parts of it that had escapes.
struct TextMemory {
  std::string source;
  std::deque<std::string> unescaped;
  std::shared_ptr<const void> file;  // of the text, if it is not `source`
};

// Whether a type begins at this word: "float", "seq", …
bool is_type_word(std::string_view word);

ValueType parse_type(TextLexer& lexer, int depth = 0);

// The elements of a tensor of that type: { 1, 2 } or ["location": "file", …].
TensorData parse_tensor(TextLexer& lexer, const ValueType& type, std::string_view name,
                        const TensorSource& source);

}  // namespace lathe::onnx
