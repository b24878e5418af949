// SPDX-License-Identifier: MIT
// A file is the header's length (u64, little-endian), the header (JSON) and the data. The header is
// read as events, so that memory holds the tensors alone.
#include "import/checkpoint/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lathe::checkpoint {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxAxes = 8;
constexpr uint64_t kMaxEmptyBits = uint64_t{1} << 40;
constexpr size_t kMaxDepth = 4;

struct SafetensorsType {
  std::string_view name;
  int64_t bits;
};
constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"I64", 64},    {"I32", 32},    {"I16", 16},
    {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16},    {"U8", 8},
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"C64", 64}};

class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<SafetensorsTensor> tensors;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(int64_t value) override {
    fail(ErrorKind::invalid_model, "the header has the number {} in '{}', expected at least 0",
         value, escape(name()));
  }
  bool number_unsigned(uint64_t value) override {
    if (in_metadata_) return other("a number");
    if (depth_ == 3 && field_ == "shape") {
      check(value <= INT64_MAX, ErrorKind::invalid_model, "tensor '{}' has an axis of size {}",
            escape(name()), value);
      check(tensors.back().dims.size() < kMaxAxes, ErrorKind::invalid_model,
            "tensor '{}' has more than {} axes", escape(name()), kMaxAxes);
      tensors.back().dims.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (depth_ == 3 && field_ == "data_offsets" && offsets_ < 2) {
      (offsets_ == 0 ? tensors.back().offset : end_) = value;
      ++offsets_;
      return true;
    }
    return other("a number");
  }
  bool number_float(double value, const std::string&) override {
    fail(ErrorKind::invalid_model, "the header has the number {} in '{}', expected an integer",
         value, escape(name()));
  }
  bool string(std::string& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ == 2 && field_ == "dtype") {
      check(safetensors_bits(value) > 0, ErrorKind::unsupported,
            "tensor '{}' has the unknown type '{}'", escape(name()), escape(value, 40));
      tensors.back().type = value;
      return true;
    }
    return other("a string");
  }
  bool binary(nlohmann::json::binary_t&) override { return other("bytes"); }
  bool start_object(size_t) override {
    check(++depth_ <= kMaxDepth, ErrorKind::invalid_model, "the header is nested deeper than {}",
          kMaxDepth);
    if (depth_ > 2) return other("an object");
    return true;
  }
  bool key(std::string& value) override {
    if (depth_ == 2) {
      field_ = value;
      return true;
    }
    in_metadata_ = value == "__metadata__";
    if (in_metadata_) return true;
    tensors.emplace_back().name = value;
    offsets_ = 0;
    has_shape_ = false;
    end_ = 0;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    SafetensorsTensor& tensor = tensors.back();
    check(!tensor.type.empty() && has_shape_ && offsets_ == 2 && tensor.offset <= end_,
          ErrorKind::invalid_model,
          "tensor '{}' has no valid dtype, shape and data_offsets in the header",
          escape(tensor.name));
    tensor.bytes = end_ - tensor.offset;
    return true;
  }
  bool start_array(size_t) override {
    check(depth_ == 2 && !in_metadata_ && (field_ == "shape" || field_ == "data_offsets"),
          ErrorKind::invalid_model, "the header has a list in '{}', expected none", escape(name()));
    check(field_ != "shape" || !has_shape_, ErrorKind::invalid_model, "tensor '{}' has two shapes",
          escape(name()));
    has_shape_ = has_shape_ || field_ == "shape";
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    fail(ErrorKind::invalid_model, "the header is not valid JSON at byte {}", at);
  }

 private:
  std::string_view name() const {
    return in_metadata_ || tensors.empty() ? "__metadata__" : std::string_view(tensors.back().name);
  }
  bool other(std::string_view what) const {
    fail(ErrorKind::invalid_model,
         "the header has {} in '{}', expected dtype, shape and data_offsets", what, escape(name()));
  }

  size_t depth_ = 0;
  std::string field_;
  uint64_t end_ = 0;
  int offsets_ = 0;
  bool has_shape_ = false;
  bool in_metadata_ = false;
};

void check_sizes(const SafetensorsTensor& tensor, uint64_t file_bytes) {
  uint64_t bits = static_cast<uint64_t>(safetensors_bits(tensor.type));
  const bool empty = std::ranges::find(tensor.dims, 0) != tensor.dims.end();
  // Strides of an empty tensor do not overflow either.
  const uint64_t most = empty ? kMaxEmptyBits : file_bytes * 8;
  for (const int64_t dim : tensor.dims) {
    const auto size = static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    check(bits <= most / size, ErrorKind::invalid_model,
          "tensor '{}' has shape [{}] of {}, more than the file's {} bytes", escape(tensor.name),
          fmt::join(tensor.dims, ", "), tensor.type, file_bytes);
    bits *= size;
  }
  if (empty) bits = 0;
  check(bits == tensor.bytes * 8, ErrorKind::invalid_model,
        "tensor '{}' has {} bytes, expected {} for shape [{}] of {}", escape(tensor.name),
        tensor.bytes, (bits + 7) / 8, fmt::join(tensor.dims, ", "), tensor.type);
}

}  // namespace

int64_t safetensors_bits(std::string_view type) {
  for (const SafetensorsType& known : kSafetensorsTypes) {
    if (known.name == type) return known.bits;
  }
  return 0;
}

std::vector<SafetensorsTensor> read_safetensors(std::string_view bytes) {
  uint64_t length = 0;
  check(bytes.size() >= sizeof length, ErrorKind::invalid_model,
        "the file has {} bytes, expected at least {}", bytes.size(), sizeof length);
  std::memcpy(&length, bytes.data(), sizeof length);
  check(length <= kMaxHeader && length <= bytes.size() - sizeof length, ErrorKind::invalid_model,
        "the header has {} bytes, expected at most {}", length,
        std::min<uint64_t>(kMaxHeader, bytes.size() - sizeof length));
  const std::string_view header = bytes.substr(sizeof length, length);
  check(header.starts_with('{'), ErrorKind::invalid_model,
        "the header begins with '{}', expected '{}'", escape(header.substr(0, 1)), "{");
  HeaderReader reader;
  nlohmann::json::sax_parse(header, &reader);
  std::vector<SafetensorsTensor>& tensors = reader.tensors;
  std::ranges::sort(tensors, {}, &SafetensorsTensor::name);
  for (size_t i = 1; i < tensors.size(); ++i) {
    check(tensors[i - 1].name != tensors[i].name, ErrorKind::invalid_model,
          "the header has two tensors '{}'", escape(tensors[i].name));
  }
  std::ranges::sort(tensors, {},
                    [](const SafetensorsTensor& t) { return std::pair(t.offset, t.bytes); });
  const uint64_t data = sizeof length + length;
  uint64_t at = 0;
  for (SafetensorsTensor& tensor : tensors) {
    check(
        tensor.offset == at, ErrorKind::invalid_model,
        "tensor '{}' begins at byte {} of the data, expected {}: tensors have no gaps or overlaps",
        escape(tensor.name), tensor.offset, at);
    check(tensor.bytes <= bytes.size() - data - at, ErrorKind::invalid_model,
          "tensor '{}' ends at byte {} of the data, but the file has {}: it is incomplete",
          escape(tensor.name), at + tensor.bytes, bytes.size() - data);
    check_sizes(tensor, bytes.size());
    at += tensor.bytes;
    tensor.offset += data;
  }
  check(at == bytes.size() - data, ErrorKind::invalid_model,
        "the file has {} bytes of data, but its tensors have {}", bytes.size() - data, at);
  return std::move(reader.tensors);
}

}  // namespace lathe::checkpoint
