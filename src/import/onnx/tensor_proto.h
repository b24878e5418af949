// SPDX-License-Identifier: MIT
// Reads and writes ONNX's TensorProto, and reads the value files of test data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "import/onnx/graph_view.h"
#include "import/onnx/proto_message.h"
#include "tensor/box.h"
#include "tensor/tensor.h"

namespace lathe::onnx {

// The state shared by a file's tensors.
struct TensorSource {
  std::shared_ptr<const void> owner;       // of the file's bytes
  std::shared_ptr<ExternalFolder> folder;  // null: external data cannot be read
};

// Converts a TensorProto.DataType. InvalidModel or Unsupported, naming `what`, for other values.
ElementType element_type_of(int64_t data_type, std::string_view what);

// The number of elements; InvalidModel if a size is negative or the bytes overflow.
int64_t checked_count(ElementType type, const Dims& dims, std::string_view tensor);

// Stores the integers of int32_data and the like as elements of `type`: one integer per element,
// or per byte for types below 8 bits.
void set_integers(TensorData& tensor, std::span<const int64_t> numbers);

TensorData read_tensor_data(ProtoPlace& place, std::string_view message,
                            const TensorSource& source);

// A dense tensor. Shares the file's memory if it is aligned for the element type. Otherwise copies
// it, or with `keep` shares it; users then call Tensor::aligned().
enum class Misaligned : uint8_t { copy, keep };
Tensor to_tensor(const TensorData& data, Misaligned misaligned = Misaligned::copy);

// The place of a tensor's bytes in a file; nullopt if no file has them unchanged.
struct FilePlace {
  std::string file;
  int64_t offset = 0;
};
std::optional<FilePlace> file_place(const Model& model, const TensorData& data);

// The serialised TensorProto. InvalidArgument above protobuf's limit of 2 GiB.
std::string write_tensor_proto(const Tensor& tensor, std::string_view name);

// Reads a file with one TensorProto, SequenceProto, OptionalProto or MapProto; the file itself has
// no type. ValueType::Kind::unknown means tensor.
struct StoredValue {
  std::string name;
  Box value;
};
StoredValue read_stored_value(const std::string& path, ValueType::Kind kind);
StoredValue parse_stored_value(std::string_view bytes, std::string_view origin,
                               ValueType::Kind kind, const TensorSource& source);

}  // namespace lathe::onnx
