// SPDX-License-Identifier: MIT
#include "import/checkpoint/files/gguf.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::checkpoint {
namespace {

constexpr uint64_t kMaxKeys = 1 << 20;
constexpr uint64_t kMaxTensors = 1 << 17;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kMaxAlignment = 1 << 16;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxEmptyElements = uint64_t{1} << 40;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};
constexpr size_t kValueSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::string_view kValueNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                            "bool", "string", "array", "u64", "i64", "f64"};

template <class T>
T load(std::string_view bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

double load_number(uint32_t type, std::string_view bytes, size_t i) {
  switch (type) {
    case kU8:
    case kBool:
      return load<uint8_t>(bytes, i);
    case kI8:
      return load<int8_t>(bytes, i);
    case kU16:
      return load<uint16_t>(bytes, i);
    case kI16:
      return load<int16_t>(bytes, i);
    case kU32:
      return load<uint32_t>(bytes, i);
    case kI32:
      return load<int32_t>(bytes, i);
    case kF32:
      return static_cast<double>(load<float>(bytes, i));
    case kU64:
      return static_cast<double>(load<uint64_t>(bytes, i));
    case kI64:
      return static_cast<double>(load<int64_t>(bytes, i));
    default:
      return load<double>(bytes, i);
  }
}

}  // namespace

class GgufFile::Reader {
 public:
  explicit Reader(std::string_view bytes, size_t at = 0) : bytes_(bytes), at_(at) {}
  size_t at() const { return at_; }
  template <class T>
  T number() {
    return load<T>(take(sizeof(T)), 0);
  }
  std::string_view text() { return take(number<uint64_t>()); }
  std::string_view take(uint64_t size) {
    check(size <= bytes_.size() - at_, ErrorKind::invalid_model,
          "the header ends at byte {}, expected {} more bytes", bytes_.size(), size);
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }
  // The bytes of `count` consecutive values.
  std::string_view values(uint32_t type, uint64_t count, std::string_view key) {
    check(type < kValueTypes && type != kArray, ErrorKind::unsupported,
          "'{}' has values of type {}, which is not supported", escape(key), type);
    check(count <= bytes_.size(), ErrorKind::invalid_model, "'{}' has {} values in {} bytes",
          escape(key), count, bytes_.size());
    if (type != kText) return take(count * kValueSizes[type]);
    const size_t begin = at_;
    for (uint64_t i = 0; i < count; ++i) text();
    return bytes_.substr(begin, at_ - begin);
  }

 private:
  std::string_view bytes_;
  size_t at_;
};

GgufFile::GgufFile(std::string_view bytes) : bytes_(bytes) {
  Reader reader(bytes);
  check(bytes.starts_with("GGUF"), ErrorKind::invalid_model,
        "the file begins with '{}', expected '{}'", escape(bytes.substr(0, 4)), "GGUF");
  reader.take(4);
  const auto version = reader.number<uint32_t>();
  check(version != 0x02000000 && version != 0x03000000, ErrorKind::unsupported,
        "the file is big-endian (version {:#010x}): convert it to little-endian", version);
  check(version == 2 || version == 3, ErrorKind::unsupported, "GGUF version {}, expected 2 or 3",
        version);
  tensor_count_ = reader.number<uint64_t>();
  const auto keys = reader.number<uint64_t>();
  check(keys <= kMaxKeys, ErrorKind::invalid_model, "the header has {} keys, expected at most {}",
        keys, kMaxKeys);
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string_view key = reader.text();
    Value value;
    value.type = reader.number<uint32_t>();
    if (value.type == kArray) {
      value.element = reader.number<uint32_t>();
      value.count = reader.number<uint64_t>();
      value.bytes = reader.values(value.element, value.count, key);
    } else {
      value.bytes = reader.values(value.type, 1, key);
    }
    check(values_.emplace(key, value).second, ErrorKind::invalid_model,
          "the header has two keys '{}'", escape(key));
  }
  keys_end_ = reader.at();
}

std::vector<GgufTensor> GgufFile::read_tensors() const {
  check(tensor_count_ <= kMaxTensors, ErrorKind::invalid_model,
        "the file has {} tensors, expected at most {}", tensor_count_, kMaxTensors);
  const uint64_t alignment = integer("general.alignment").value_or(kDefaultAlignment);
  check(alignment > 0 && alignment <= kMaxAlignment && (alignment & (alignment - 1)) == 0,
        ErrorKind::invalid_model, "general.alignment is {}, expected a power of two of at most {}",
        alignment, kMaxAlignment);
  Reader reader(bytes_, keys_end_);
  std::vector<GgufTensor> tensors;
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    GgufTensor& tensor = tensors.emplace_back();
    tensor.name = reader.text();
    const auto rank = reader.number<uint32_t>();
    check(rank <= kMaxRank, ErrorKind::invalid_model,
          "tensor '{}' has rank {}, expected at most {}", escape(tensor.name), rank, kMaxRank);
    for (uint32_t axis = 0; axis < rank; ++axis) {
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(reader.number<uint64_t>()));
    }
    const auto type = reader.number<uint32_t>();
    tensor.type = find_gguf_type(type);
    check(tensor.type != nullptr, ErrorKind::unsupported,
          "tensor '{}' has the unknown type {}; a newer version of GGUF may define it",
          escape(tensor.name), type);
    tensor.offset = reader.number<uint64_t>();
  }
  const uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors) {
    // Products are bounded by the file's size in bits, so they do not overflow; nor do the strides
    // of an empty tensor.
    const bool empty = std::ranges::find(tensor.dims, 0) != tensor.dims.end();
    const uint64_t most = empty ? kMaxEmptyElements : bytes_.size() * 8;
    uint64_t count = 1;
    for (const int64_t dim : tensor.dims) {
      check(dim >= 0 && count <= most / static_cast<uint64_t>(std::max<int64_t>(dim, 1)),
            ErrorKind::invalid_model, "tensor '{}' has shape [{}], more than the file's {} bytes",
            escape(tensor.name), fmt::join(tensor.dims, ", "), bytes_.size());
      count *= static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    }
    if (empty) count = 0;
    const auto block = static_cast<uint64_t>(tensor.type->elements);
    const int64_t columns = tensor.dims.empty() ? 1 : tensor.dims.back();
    check(columns % tensor.type->elements == 0, ErrorKind::invalid_model,
          "tensor '{}' has rows of {} elements, expected a multiple of {} for type {}",
          escape(tensor.name), columns, block, tensor.type->name);
    const uint64_t size = count / block * static_cast<uint64_t>(tensor.type->bytes);
    check(tensor.offset % alignment == 0, ErrorKind::invalid_model,
          "tensor '{}' is at offset {}, expected a multiple of {}", escape(tensor.name),
          tensor.offset, alignment);
    check(data <= bytes_.size() && tensor.offset <= bytes_.size() - data &&
              size <= bytes_.size() - data - tensor.offset,
          ErrorKind::invalid_model,
          "tensor '{}' has {} bytes at offset {} of the data, which begins at byte {}, but the "
          "file has {} bytes: it is incomplete",
          escape(tensor.name), size, tensor.offset, data, bytes_.size());
    tensor.offset += data;
    tensor.bytes = bytes_.substr(tensor.offset, size);
  }
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, &GgufTensor::name);
  for (size_t i = 1; i < order.size(); ++i) {
    check(order[i - 1]->name != order[i]->name, ErrorKind::invalid_model,
          "the file has two tensors '{}'", escape(order[i]->name));
  }
  std::ranges::sort(order, {}, [](const GgufTensor* t) { return t->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    check(before.offset + before.bytes.size() <= order[i]->offset || before.bytes.empty() ||
              order[i]->bytes.empty(),
          ErrorKind::invalid_model, "tensors '{}' and '{}' overlap at byte {}", escape(before.name),
          escape(order[i]->name), order[i]->offset);
  }
  return tensors;
}

void GgufFile::wrong_type(std::string_view key, const Value& value, const char* expected) {
  const bool array = value.type == kArray;
  fail(ErrorKind::invalid_model, "'{}' is of type {}{}, expected {}", key, array ? "array of " : "",
       kValueNames[array ? value.element : value.type], expected);
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kText) wrong_type(key, *value, "string");
  return value->bytes.substr(sizeof(uint64_t));
}

std::optional<bool> GgufFile::flag(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kBool) wrong_type(key, *value, "bool");
  return value->bytes[0] != 0;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == kText || value->type == kArray) wrong_type(key, *value, "a number");
  return load_number(value->type, value->bytes, 0);
}

std::optional<uint64_t> GgufFile::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type >= kBool || value->type == kF32) {
    wrong_type(key, *value, "an integer of at most 32 bits");
  }
  const double number = load_number(value->type, value->bytes, 0);
  if (number < 0) return std::nullopt;
  return static_cast<uint64_t>(number);
}

bool GgufFile::is_array(std::string_view key) const {
  const Value* value = find(key);
  return value != nullptr && value->type == kArray;
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  std::vector<std::string_view> out;
  const Value* value = find(key);
  if (value == nullptr) return out;
  if (value->type != kArray || value->element != kText) wrong_type(key, *value, "array of string");
  Reader reader(value->bytes);
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) out.push_back(reader.text());
  return out;
}

std::vector<double> GgufFile::numbers(std::string_view key, uint64_t most) const {
  std::vector<double> out;
  const Value* value = find(key);
  if (value == nullptr) return out;
  if (value->type != kArray || value->element == kText) wrong_type(key, *value, "array of numbers");
  check(value->count <= most, ErrorKind::invalid_model, "'{}' has {} entries, expected at most {}",
        key, value->count, most);
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    out.push_back(load_number(value->element, value->bytes, i));
  }
  return out;
}

std::string_view GgufFile::bytes(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  if (value->type != kArray || (value->element != kU8 && value->element != kI8)) {
    wrong_type(key, *value, "array of u8 or i8");
  }
  return value->bytes;
}

}  // namespace lathe::checkpoint
