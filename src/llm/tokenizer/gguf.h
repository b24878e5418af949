// SPDX-License-Identifier: MIT
// The named values in the header of a GGUF file. Tensors are not read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::tokenizer {

// Values refer to the file's bytes.
class GgufHeader {
 public:
  // InvalidModel for an invalid file; Unsupported for versions other than 2 and 3.
  explicit GgufHeader(std::string_view bytes);

  bool has(std::string_view key) const { return values_.contains(std::string(key)); }
  // InvalidModel for a value of another type.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<uint64_t> integer(std::string_view key) const;  // nullopt for negative values
  // Empty without the key.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  // The bytes of an array of 8-bit integers.
  std::string_view bytes(std::string_view key) const;

 private:
  enum Type : uint32_t {
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
    kTypes
  };
  struct Value {
    uint32_t type = 0;
    uint32_t element = 0;  // of an array
    uint64_t count = 1;
    std::string_view bytes;
  };
  class Reader;
  const Value* find(std::string_view key) const;
  static double number(uint32_t type, std::string_view bytes, size_t index);

  std::map<std::string, Value> values_;
};

}  // namespace lathe::tokenizer
