// SPDX-License-Identifier: MIT
// Reads ONNX's SparseTensorProto.
#pragma once

#include <string_view>

#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {

// The dense tensor, named as the values are. InvalidModel for indices that are out of range, not
// ascending or of another number than the values; Unsupported above `most` bytes.
TensorData read_sparse_tensor(ProtoPlace& place, std::string_view message,
                              const TensorSource& source, int64_t most);

}  // namespace lathe::onnx
