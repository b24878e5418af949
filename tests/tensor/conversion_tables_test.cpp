// SPDX-License-Identifier: MIT
// Conversions have the bits of numpy and ml_dtypes (make_conversion_tables.py).
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr const char* kPath = "tests/tensor/conversion_tables.gz";

struct Record {
  ElementType from;
  ElementType to;
  ConvertOptions options;
  std::vector<uint64_t> source;  // bits of each element
  std::vector<uint64_t> target;
};

std::string read_compressed(const char* path) {
  std::string data;
  gzFile file = gzopen(path, "rb");
  EXPECT_NE(file, nullptr) << path;
  if (file == nullptr) return data;
  char buffer[1 << 16];
  for (int size = 0; (size = gzread(file, buffer, sizeof buffer)) > 0;) data.append(buffer, size);
  gzclose(file);
  return data;
}

class Reader {
 public:
  explicit Reader(std::string data) : data_(std::move(data)) {}

  bool at_end() const { return at_ >= data_.size(); }

  Record read_record() {
    Record record;
    record.from = read_type();
    record.to = read_type();
    const uint64_t options = read_number(1);
    record.options.saturate = (options & 1) != 0;
    record.options.scale_rounding = static_cast<ScaleRounding>(options >> 1);
    const bool has_source = read_number(1) != 0;
    const uint64_t count = read_number(4);
    if (has_source) source_ = read_elements(record.from, count);
    record.source = source_;
    record.target = read_elements(record.to, count);
    return record;
  }

 private:
  uint64_t read_number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(data_.at(at_++))) << (8 * i);
    }
    return value;
  }

  ElementType read_type() {
    const auto size = static_cast<size_t>(read_number(1));
    at_ += size;
    return element_type_from_name(data_.substr(at_ - size, size)).value();
  }

  // Byte planes of the differences of consecutive elements.
  std::vector<uint64_t> read_elements(ElementType type, size_t count) {
    const int bits = std::max(info(type).bits, 8);
    std::vector<uint64_t> elements(count);
    for (int shift = 0; shift < bits; shift += 8) {
      for (uint64_t& element : elements) element |= read_number(1) << shift;
    }
    const uint64_t mask = ~uint64_t{0} >> (64 - bits);
    for (size_t i = 1; i < count; ++i) elements[i] = (elements[i] + elements[i - 1]) & mask;
    return elements;
  }

  std::string data_;
  size_t at_ = 0;
  std::vector<uint64_t> source_;
};

// Packs elements, one integer each, as convert() stores them.
std::vector<uint8_t> pack(ElementType type, const std::vector<uint64_t>& elements) {
  const int bits = info(type).bits;
  std::vector<uint8_t> bytes(
      static_cast<size_t>(bytes_for(type, static_cast<int64_t>(elements.size()))));
  for (size_t i = 0; i < elements.size() * bits; i += std::min(bits, 8)) {
    const uint64_t element = elements[i / bits] >> (i % bits);
    bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | (element & 0xFF) << (i % 8));
  }
  return bytes;
}

uint64_t element_at(ElementType type, const std::vector<uint8_t>& bytes, size_t index) {
  const int bits = info(type).bits;
  if (bits < 8) return (bytes[index * bits / 8] >> (index * bits % 8)) & ((1 << bits) - 1);
  uint64_t element = 0;
  std::memcpy(&element, &bytes[index * bits / 8], bits / 8);
  return element;
}

void compare(const Record& record) {
  const std::vector<uint8_t> source = pack(record.from, record.source);
  std::vector<uint8_t> target = pack(record.to, record.source);
  std::fill(target.begin(), target.end(), uint8_t{0xA5});
  convert(record.to, target.data(), record.from, source.data(),
          static_cast<int64_t>(record.source.size()), record.options);
  int wrong = 0;
  for (size_t i = 0; i < record.source.size(); ++i) {
    const uint64_t found = element_at(record.to, target, i);
    if (found == record.target[i] || ++wrong > 5) continue;
    ADD_FAILURE() << to_string(record.from) << " to " << to_string(record.to)
                  << (record.options.saturate ? "" : ", not saturating") << ", rounding "
                  << static_cast<int>(record.options.scale_rounding) << std::hex << ": bits 0x"
                  << record.source[i] << " became 0x" << found << ", expected 0x"
                  << record.target[i];
  }
  EXPECT_EQ(wrong, 0) << to_string(record.from) << " to " << to_string(record.to);
}

TEST(ConversionTables, EveryConversionHasTheBitsOfNumpyAndMlDtypes) {
  Reader reader(read_compressed(kPath));
  std::set<ElementType> sources;
  std::set<ElementType> targets;
  size_t compared = 0;
  while (!reader.at_end()) {
    const Record record = reader.read_record();
    compare(record);
    sources.insert(record.from);
    targets.insert(record.to);
    compared += record.source.size();
  }
  EXPECT_GT(compared, 400000u);
  EXPECT_EQ(sources.size(), 22u);  // all but bool, the complex types and string
  EXPECT_EQ(targets.size(), 23u);
}

}  // namespace
}  // namespace lathe
