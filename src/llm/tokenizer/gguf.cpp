// SPDX-License-Identifier: MIT
#include "llm/tokenizer/gguf.h"

#include <cstring>

#include "base/error.h"

namespace lathe::tokenizer {
namespace {

constexpr uint64_t kMaxKeys = 1 << 20;
constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <class T>
T load(std::string_view bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

class GgufHeader::Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
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
    check(type < kTypes && type != kArray, ErrorKind::unsupported,
          "'{}' has values of type {}, which is not supported", escape(key), type);
    if (type != kText) {
      check(count <= bytes_.size(), ErrorKind::invalid_model, "'{}' has {} values in {} bytes",
            escape(key), count, bytes_.size());
      return take(count * kSizes[type]);
    }
    const size_t begin = at_;
    for (uint64_t i = 0; i < count; ++i) text();
    return bytes_.substr(begin, at_ - begin);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

GgufHeader::GgufHeader(std::string_view bytes) {
  Reader reader(bytes);
  check(bytes.starts_with("GGUF"), ErrorKind::invalid_model,
        "the file begins with '{}', expected '{}'", escape(bytes.substr(0, 4)), "GGUF");
  reader.take(4);
  const auto version = reader.number<uint32_t>();
  check(version == 2 || version == 3, ErrorKind::unsupported, "GGUF version {}, expected 2 or 3",
        version);
  reader.number<uint64_t>();  // tensors
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
    values_[std::string(key)] = value;
  }
}

const GgufHeader::Value* GgufHeader::find(std::string_view key) const {
  const auto it = values_.find(std::string(key));
  return it == values_.end() ? nullptr : &it->second;
}

double GgufHeader::number(uint32_t type, std::string_view bytes, size_t i) {
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

std::optional<std::string_view> GgufHeader::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  check(value->type == kText, ErrorKind::invalid_model, "'{}' has type {}, expected a string", key,
        value->type);
  return value->bytes.substr(sizeof(uint64_t));
}

std::optional<bool> GgufHeader::flag(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  check(value->type == kBool, ErrorKind::invalid_model, "'{}' has type {}, expected a bool", key,
        value->type);
  return value->bytes[0] != 0;
}

std::optional<uint64_t> GgufHeader::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  check(value->type < kBool && value->type != kF32, ErrorKind::invalid_model,
        "'{}' has type {}, expected a number of at most 32 bits", key, value->type);
  const double number = GgufHeader::number(value->type, value->bytes, 0);
  if (number < 0) return std::nullopt;
  return static_cast<uint64_t>(number);
}

std::vector<std::string_view> GgufHeader::texts(std::string_view key) const {
  std::vector<std::string_view> out;
  const Value* value = find(key);
  if (value == nullptr) return out;
  check(value->type == kArray && value->element == kText, ErrorKind::invalid_model,
        "'{}' has type {} of {}, expected an array of strings", key, value->type, value->element);
  Reader reader(value->bytes);
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) out.push_back(reader.text());
  return out;
}

std::vector<double> GgufHeader::numbers(std::string_view key) const {
  std::vector<double> out;
  const Value* value = find(key);
  if (value == nullptr) return out;
  check(value->type == kArray && value->element != kText, ErrorKind::invalid_model,
        "'{}' has type {} of {}, expected an array of numbers", key, value->type, value->element);
  out.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    out.push_back(number(value->element, value->bytes, i));
  }
  return out;
}

std::string_view GgufHeader::bytes(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  check(value->type == kArray && (value->element == kU8 || value->element == kI8),
        ErrorKind::invalid_model, "'{}' has type {} of {}, expected an array of bytes", key,
        value->type, value->element);
  return value->bytes;
}

}  // namespace lathe::tokenizer
