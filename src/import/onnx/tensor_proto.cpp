// SPDX-License-Identifier: MIT
#include "import/onnx/tensor_proto.h"

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "import/onnx/external_data.h"

namespace lathe::onnx {
namespace {

// The fields with elements, by their numbers in TensorProto.
enum class DataField : uint32_t {
  none = 0,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
};

std::string_view to_string(DataField field) {
  switch (field) {
    case DataField::float_data:
      return "float_data";
    case DataField::int32_data:
      return "int32_data";
    case DataField::string_data:
      return "string_data";
    case DataField::int64_data:
      return "int64_data";
    case DataField::raw_data:
      return "raw_data";
    case DataField::double_data:
      return "double_data";
    case DataField::uint64_data:
      return "uint64_data";
    case DataField::none:
      break;
  }
  return "no field";
}

DataField typed_field(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::c64:
      return DataField::float_data;
    case ElementType::f64:
    case ElementType::c128:
      return DataField::double_data;
    case ElementType::i64:
      return DataField::int64_data;
    case ElementType::u32:
    case ElementType::u64:
      return DataField::uint64_data;
    case ElementType::string:
      return DataField::string_data;
    default:
      return DataField::int32_data;
  }
}

// A TensorProto's fields, before type and dims are checked.
struct Fields {
  int64_t data_type = 0;
  DataField used = DataField::none;
  std::string_view raw;
  std::vector<std::string_view> chunks;  // of float_data or double_data
  std::vector<int64_t> integers;
  StringPairs external;
  bool is_external = false;
  bool is_segment = false;
};

StringPairs::value_type read_pair(ProtoPlace& place, std::string_view bytes) {
  StringPairs::value_type pair;
  ProtoMessage message(place, "StringStringEntryProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        pair.first = message.name();
        break;
      case 2:
        pair.second = message.name();
        break;
      default:
        message.skip();
    }
  }
  return pair;
}

void use(Fields& fields, DataField field, std::string_view tensor) {
  check(fields.used == DataField::none || fields.used == field, ErrorKind::invalid_model,
        "tensor '{}' has elements in both {} and {}, expected one of them", escape(tensor),
        to_string(fields.used), to_string(field));
  fields.used = field;
}

void read_elements(ProtoMessage& message, Fields& fields, TensorData& tensor) {
  const auto field = static_cast<DataField>(message.tag());
  const size_t before = fields.integers.size() + fields.chunks.size() + tensor.strings.size();
  switch (field) {
    case DataField::float_data:
      fields.chunks.push_back(message.fixed(4));
      break;
    case DataField::double_data:
      fields.chunks.push_back(message.fixed(8));
      break;
    case DataField::string_data:
      tensor.strings.push_back(message.text());
      break;
    case DataField::raw_data:
      fields.raw = message.text();
      break;
    default:
      message.append(fields.integers);
  }
  // Some writers add empty lists of other fields.
  const size_t after = fields.integers.size() + fields.chunks.size() + tensor.strings.size();
  if (after > before || field == DataField::raw_data) use(fields, field, tensor.name);
}

void read_fields(ProtoPlace& place, std::string_view bytes, Fields& fields, TensorData& tensor) {
  ProtoMessage message(place, "TensorProto", bytes);
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        message.append(tensor.dims);
        break;
      case 2:
        fields.data_type = message.integer();
        break;
      case 3:
        fields.is_segment = true;
        message.skip();
        break;
      case 8:
        tensor.name = message.name();
        break;
      case 13:
        fields.external.push_back(read_pair(place, message.text()));
        break;
      case 14:
        fields.is_external = message.integer() == 1;
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 9:
      case 10:
      case 11:
        read_elements(message, fields, tensor);
        break;
      default:
        message.skip();
    }
  }
}

void set_chunks(TensorData& tensor, const std::vector<std::string_view>& chunks) {
  if (chunks.size() == 1) {
    tensor.bytes = std::as_bytes(std::span(chunks[0]));
    return;
  }
  auto joined = std::make_shared<std::string>();
  for (const std::string_view chunk : chunks) joined->append(chunk);
  tensor.bytes = std::as_bytes(std::span(*joined));
  tensor.owner = std::move(joined);
}

void set_elements(TensorData& tensor, Fields& fields) {
  const DataField typed = typed_field(tensor.type);
  const bool is_string = tensor.type == ElementType::string;
  check(fields.used == DataField::none || fields.used == typed ||
            (fields.used == DataField::raw_data && !is_string),
        ErrorKind::invalid_model, "tensor '{}' of {} has its elements in {}, expected {}{}",
        escape(tensor.name), lathe::to_string(tensor.type), to_string(fields.used),
        is_string ? "" : "raw_data or ", to_string(typed));
  switch (fields.used) {
    case DataField::none:
    case DataField::string_data:
      break;
    case DataField::raw_data:
      tensor.bytes = std::as_bytes(std::span(fields.raw));
      break;
    case DataField::float_data:
    case DataField::double_data:
      set_chunks(tensor, fields.chunks);
      break;
    default:
      set_integers(tensor, fields.integers);
  }
}

void check_size(const TensorData& tensor, int64_t count, bool has_elements) {
  const bool is_string = tensor.type == ElementType::string;
  const auto found = static_cast<int64_t>(is_string ? tensor.strings.size() : tensor.bytes.size());
  const int64_t expected = is_string ? count : bytes_for(tensor.type, count);
  check(found == expected, ErrorKind::invalid_model,
        "tensor '{}': {} needs {} {}, but the file has {}{}", escape(tensor.name),
        to_string(tensor.type, tensor.dims), expected, is_string ? "strings" : "bytes", found,
        has_elements ? "" : ": its elements are missing");
}

}  // namespace

ElementType element_type_of(int64_t data_type, std::string_view what) {
  const std::optional<ElementType> type = element_type_from_onnx(data_type);
  if (type) return *type;
  check(data_type != 27 && data_type != 28, ErrorKind::unsupported,
        "{} has data type {} (FLOAT6), which is not supported", what, data_type);
  fail(ErrorKind::invalid_model, "{} has data type {}, expected 1 to 26", what, data_type);
}

int64_t checked_count(ElementType type, const Dims& dims, std::string_view tensor) {
  check(dims.size() <= static_cast<size_t>(kMaxRank), ErrorKind::unsupported,
        "tensor '{}' has rank {}, at most {} is supported", escape(tensor), dims.size(), kMaxRank);
  // Bounds the bytes of the widest type as well.
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() / 32;
  // Kernels walk the other axes of a tensor without elements: element_count() has the same bound.
  constexpr int64_t kLargestEmpty = int64_t{1} << 32;
  int64_t count = 1;
  bool is_empty = false;
  for (const int64_t extent : dims) {
    check(extent >= 0, ErrorKind::invalid_model,
          "tensor '{}' has size {} in {}, expected 0 or more", escape(tensor), extent,
          to_string(type, dims));
    is_empty = is_empty || extent == 0;
  }
  for (const int64_t extent : dims) {
    if (extent == 0) continue;
    check(!is_empty || count <= kLargestEmpty / extent, ErrorKind::invalid_model,
          "tensor '{}' of {} has no elements, but its other sizes multiply to more than {}",
          escape(tensor), to_string(type, dims), kLargestEmpty);
    check(count <= kLargest / extent, ErrorKind::invalid_model,
          "tensor '{}' of {} has more elements than memory has addresses", escape(tensor),
          to_string(type, dims));
    count *= extent;
  }
  return is_empty ? 0 : count;
}

void set_integers(TensorData& tensor, std::span<const int64_t> numbers) {
  const int width = is_packed(tensor.type) ? 8 : info(tensor.type).bits;
  const auto size = static_cast<size_t>(width) / 8;
  auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * size);
  for (size_t i = 0; i < numbers.size(); ++i) {
    int64_t number = numbers[i];
    if (width < 64) {  // files use signed and unsigned values for the same bits
      const int64_t limit = int64_t{1} << width;
      check(number >= -limit / 2 && number < limit, ErrorKind::invalid_model,
            "tensor '{}': element {} is {}, which {} cannot hold", escape(tensor.name), i, number,
            lathe::to_string(tensor.type));
    }
    if (tensor.type == ElementType::boolean) number = number != 0 ? 1 : 0;
    std::memcpy(bytes->data() + i * size, &number, size);
  }
  tensor.bytes = *bytes;
  tensor.owner = std::move(bytes);
}

TensorData read_tensor_data(ProtoPlace& place, std::string_view message,
                            const TensorSource& source) {
  TensorData tensor;
  Fields fields;
  tensor.owner = source.owner;
  read_fields(place, message, fields, tensor);
  const std::string what = fmt::format("tensor '{}'", escape(tensor.name));
  tensor.type = element_type_of(fields.data_type, what);
  const int64_t count = checked_count(tensor.type, tensor.dims, tensor.name);
  check(!fields.is_segment, ErrorKind::unsupported,
        "{} is one segment of a tensor stored in pieces, which is not supported", what);
  if (fields.is_external) {
    check(tensor.type != ElementType::string, ErrorKind::invalid_model,
          "{} of strings has its elements in external data, expected string_data", what);
    tensor.external = parse_external_data(fields.external, tensor.name, source.folder);
    return tensor;
  }
  set_elements(tensor, fields);
  check_size(tensor, count, fields.used != DataField::none);
  return tensor;
}

Tensor to_tensor(const TensorData& data, Misaligned misaligned) {
  if (data.type == ElementType::string) {
    Tensor out(data.type, data.dims);
    const std::span<std::string> elements = out.elements<std::string>();
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = data.strings[i];
    return out;
  }
  std::span<const std::byte> bytes = data.bytes;
  std::shared_ptr<const void> owner = data.owner;
  if (data.external) {
    if (data.external->folder == nullptr) {
      throw MissingData(fmt::format(
          "the elements of tensor '{}' are in '{}', which cannot be found: the model was read from "
          "memory without that file",
          escape(data.name), escape(data.external->location)));
    }
    const int64_t count = checked_count(data.type, data.dims, data.name);
    const auto size = static_cast<uint64_t>(bytes_for(data.type, count));
    auto external = data.external->folder->read(*data.external, data.name, size);
    bytes = external.bytes;
    owner = std::move(external.owner);
  }
  if (bytes.empty()) return Tensor(data.type, data.dims);
  void* memory = const_cast<std::byte*>(bytes.data());  // literals are read-only, as the map is
  const Tensor shared(data.type, data.dims, Tensor::dense_strides(data.dims), memory,
                      std::const_pointer_cast<void>(owner));
  return misaligned == Misaligned::copy ? shared.aligned() : shared;
}

std::optional<FilePlace> file_place(const Model& model, const TensorData& data) {
  if (data.external) {
    if (data.external->folder == nullptr) return std::nullopt;
    std::optional<std::string> path = data.external->folder->path(data.external->location);
    if (!path) return std::nullopt;
    return FilePlace{std::move(*path), static_cast<int64_t>(data.external->offset)};
  }
  if (model.file == nullptr || data.bytes.empty()) return std::nullopt;
  const std::span<const std::byte> all = model.file->bytes();
  const std::less_equal<const std::byte*> before;  // also orders pointers into different memory
  const std::byte* end = data.bytes.data() + data.bytes.size();
  if (!before(all.data(), data.bytes.data()) || !before(end, all.data() + all.size())) {
    return std::nullopt;
  }
  return FilePlace{model.file->path(), data.bytes.data() - all.data()};
}

std::string write_tensor_proto(const Tensor& tensor, std::string_view name) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max() - 4096;
  const Tensor dense = tensor.dense();
  const bool is_string = dense.type() == ElementType::string;
  check(is_string || dense.byte_size() <= kLargest, ErrorKind::invalid_argument,
        "tensor '{}' of {} has {} bytes, but a TensorProto holds at most {}; write an .npz instead",
        escape(name), to_string(dense.type(), dense.dims()), dense.byte_size(), kLargest);
  std::string out;
  protozero::pbf_writer writer(out);
  for (const int64_t extent : dense.dims()) writer.add_int64(1, extent);
  writer.add_int32(2, info(dense.type()).onnx);
  if (is_string) {
    for (const std::string& element : dense.elements<std::string>()) writer.add_bytes(6, element);
  }
  if (!name.empty()) writer.add_string(8, name.data(), name.size());
  if (!is_string) {
    writer.add_bytes(9, static_cast<const char*>(dense.data()),
                     static_cast<size_t>(dense.byte_size()));
  }
  return out;
}

}  // namespace lathe::onnx
