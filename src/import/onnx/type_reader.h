// SPDX-License-Identifier: MIT
// Types out of their protobuf messages.
#pragma once

#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/proto_message.h"

namespace lathe::onnx {

// A TypeProto. `value` is what errors name. Unsupported for sparse and opaque types.
ValueType read_type(ProtoPlace& place, std::string_view bytes, std::string_view value);

}  // namespace lathe::onnx
