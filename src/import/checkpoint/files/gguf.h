// SPDX-License-Identifier: MIT
// Reads GGUF files, versions 2 and 3: the keys of the header, and the tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "import/checkpoint/files/gguf_types.h"

namespace lathe::checkpoint {

struct GgufTensor {
  std::string_view name;
  const GgufType* type = nullptr;
  std::vector<int64_t> dims;  // outermost first: rows, then columns
  std::string_view bytes;     // in the file
  uint64_t offset = 0;        // of these bytes, from the file's beginning
};

// All values refer to the file's bytes, which must outlive them.
class GgufFile {
 public:
  // Reads the header's keys. InvalidModel for an invalid file; Unsupported for other versions and
  // for big-endian files.
  explicit GgufFile(std::string_view bytes);

  // Reads and checks the table of tensors: types, sizes, places in the file, no overlaps.
  std::vector<GgufTensor> read_tensors() const;
  uint64_t tensor_count() const { return tensor_count_; }
  // The file up to its table of tensors: all keys, and no weights.
  std::string_view header() const { return bytes_.substr(0, keys_end_); }

  bool has(std::string_view key) const { return values_.contains(key); }
  std::vector<std::string_view> keys() const;
  // nullopt without the key; InvalidModel for a value of another type.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;     // of any numeric type
  std::optional<uint64_t> integer(std::string_view key) const;  // nullopt for negative values
  bool is_array(std::string_view key) const;
  // Empty without the key.
  std::vector<std::string_view> texts(std::string_view key) const;
  // The array may have bools, too. InvalidModel for more than `most` values.
  std::vector<double> numbers(std::string_view key, uint64_t most = UINT64_MAX) const;
  // The bytes of an array of 8-bit integers.
  std::string_view bytes(std::string_view key) const;

 private:
  struct Value {
    uint32_t type = 0;
    uint32_t element = 0;  // of an array
    uint64_t count = 1;
    std::string_view bytes;
  };
  class Reader;
  const Value* find(std::string_view key) const;
  [[noreturn]] static void wrong_type(std::string_view key, const Value& value,
                                      const char* expected);

  std::string_view bytes_;
  std::map<std::string_view, Value> values_;
  uint64_t tensor_count_ = 0;
  size_t keys_end_ = 0;  // where the table of tensors begins
};

}  // namespace lathe::checkpoint
