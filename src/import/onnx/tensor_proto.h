// SPDX-License-Identifier: MIT
// Tensors in and out of ONNX's TensorProto, and the values that test data keeps in files.
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

// What a file's tensors share.
struct TensorSource {
  std::shared_ptr<const void> owner;       // of the file's bytes
  std::shared_ptr<ExternalFolder> folder;  // null: external data cannot be read
};

// Of TensorProto.DataType; InvalidModel or Unsupported, naming `what`, if there is none such.
ElementType element_type_of(int64_t data_type, std::string_view what);

// Elements of one dense tensor; InvalidModel if an extent is negative or the bytes overflow.
int64_t checked_count(ElementType type, const Dims& dims, std::string_view tensor);

// The bytes of whole numbers as elements of `type`, for lists of int32_data and the like: one
// number per element, or per byte of a type below 8 bits.
void set_integers(TensorData& tensor, std::span<const int64_t> numbers);

TensorData read_tensor_data(ProtoPlace& place, std::string_view message,
                            const TensorSource& source);

// Dense. Shares the file's memory where that is aligned for the element type; elsewhere copies it,
// or with `keep` shares it all the same: whoever computes on it asks for Tensor::aligned() first.
enum class Misaligned : uint8_t { copy, keep };
Tensor to_tensor(const TensorData& data, Misaligned misaligned = Misaligned::copy);

// Where the bytes of to_tensor lie; nullopt if in no file as they are.
struct FilePlace {
  std::string file;
  int64_t offset = 0;
};
std::optional<FilePlace> file_place(const Model& model, const TensorData& data);

// The serialised TensorProto. InvalidArgument above protobuf's limit of 2 GiB.
std::string write_tensor_proto(const Tensor& tensor, std::string_view name);

// A file with one TensorProto, SequenceProto, OptionalProto or MapProto; which one the file itself
// does not say. ValueType::Kind::unknown means tensor.
struct StoredValue {
  std::string name;
  Box value;
};
StoredValue read_stored_value(const std::string& path, ValueType::Kind kind);
StoredValue parse_stored_value(std::string_view bytes, std::string_view origin,
                               ValueType::Kind kind, const TensorSource& source);

}  // namespace lathe::onnx
