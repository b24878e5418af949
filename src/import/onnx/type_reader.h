// SPDX-License-Identifier: MIT
// Reads types from their protobuf messages.
#pragma once

#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/proto_message.h"

namespace lathe::onnx {

// Reads a TypeProto. Errors name `value`. Unsupported for sparse and opaque types.
ValueType read_type(ProtoPlace& place, std::string_view bytes, std::string_view value);

}  // namespace lathe::onnx
