// SPDX-License-Identifier: MIT
#include "import/onnx/sparse_tensor.h"

#include <cstring>

#include "base/error.h"

namespace lathe::onnx {
namespace {

// The linear index of stored value `i`: given, or from the coordinates [count, rank].
int64_t place_of(const TensorData& tensor, const Tensor& indices, int64_t i) {
  const int64_t* numbers = indices.as<int64_t>();
  const auto in_range = [&](int64_t index, int64_t extent) {
    check(index >= 0 && index < extent, ErrorKind::invalid_model,
          "sparse tensor '{}' of {}: index {} of value {} is out of range, expected 0 to {}",
          escape(tensor.name), to_string(tensor.type, tensor.dims), index, i, extent - 1);
    return index;
  };
  if (indices.dims().size() == 1) {
    return in_range(numbers[i], checked_count(tensor.type, tensor.dims, tensor.name));
  }
  const auto rank = static_cast<int64_t>(tensor.dims.size());
  int64_t place = 0;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t extent = tensor.dims[static_cast<size_t>(axis)];
    place = place * extent + in_range(numbers[i * rank + axis], extent);
  }
  return place;
}

void check_indices(const TensorData& tensor, const Tensor& indices, int64_t count) {
  check(indices.type() == ElementType::i64, ErrorKind::invalid_model,
        "sparse tensor '{}' has indices of {}, expected i64", escape(tensor.name),
        to_string(indices.type()));
  const Dims coordinates = {count, static_cast<int64_t>(tensor.dims.size())};
  check(indices.dims() == Dims{count} || indices.dims() == coordinates, ErrorKind::invalid_model,
        "sparse tensor '{}' of {} has {} values and indices {}, expected one index per value",
        escape(tensor.name), to_string(tensor.type, tensor.dims), count,
        to_string(indices.type(), indices.dims()));
}

}  // namespace

TensorData read_sparse_tensor(ProtoPlace& place, std::string_view bytes, const TensorSource& source,
                              int64_t most) {
  TensorData out;
  std::optional<TensorData> values;
  std::optional<TensorData> indices;
  ProtoMessage message(place, "SparseTensorProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        values = read_tensor_data(place, message.text(), source);
        break;
      case 2:
        indices = read_tensor_data(place, message.text(), source);
        break;
      case 3:
        message.append(out.dims);
        break;
      default:
        message.skip();
    }
  }
  check(values.has_value(), ErrorKind::invalid_model, "a sparse tensor of rank {} has no values",
        out.dims.size());
  out.name = values->name;
  out.type = values->type;
  check(!is_packed(out.type) && out.type != ElementType::string, ErrorKind::unsupported,
        "sparse tensor '{}' has elements of {}, which is not supported", escape(out.name),
        to_string(out.type));
  check(values->dims.size() == 1, ErrorKind::invalid_model,
        "the values of sparse tensor '{}' have rank {}, expected 1", escape(out.name),
        values->dims.size());
  const int64_t count = values->dims[0];
  const int64_t size = bytes_for(out.type, checked_count(out.type, out.dims, out.name));
  check(size <= most, ErrorKind::unsupported,
        "sparse tensor '{}' of {} has {} bytes as a dense one, at most {} are supported",
        escape(out.name), to_string(out.type, out.dims), size, most);
  const Tensor stored = to_tensor(*values);
  const Tensor given = indices ? to_tensor(*indices) : Tensor(ElementType::i64, {0});
  check_indices(out, given, count);
  auto dense = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size));
  const auto width = static_cast<int64_t>(info(out.type).bits / 8);
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = place_of(out, given, i);
    check(at > last, ErrorKind::invalid_model,
          "sparse tensor '{}': the index of value {} is not above that of the value before",
          escape(out.name), i);
    last = at;
    std::memcpy(dense->data() + at * width,
                static_cast<const std::byte*>(stored.data()) + i * width,
                static_cast<size_t>(width));
  }
  out.bytes = *dense;
  out.owner = std::move(dense);
  return out;
}

}  // namespace lathe::onnx
