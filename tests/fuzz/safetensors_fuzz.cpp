// SPDX-License-Identifier: MIT
// Bytes as a safetensors file: every tensor lies in the file.
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "import/checkpoint/files/safetensors.h"
#include "tests/fuzz/input_limit.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Half of the mutations keep the header's length in step with the header.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  uint64_t length = 0;
  if (seed % 2 == 0 || size < sizeof length) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(&length, data, sizeof length);
  if (length == 0 || length > size - sizeof length) return LLVMFuzzerMutate(data, size, max_size);
  uint8_t* header = data + sizeof length;
  const std::string tail(reinterpret_cast<char*>(header + length), size - sizeof length - length);
  const size_t most = max_size - sizeof length - tail.size();
  length = LLVMFuzzerMutate(header, length, most);
  std::memcpy(data, &length, sizeof length);
  std::memcpy(header + length, tail.data(), tail.size());
  return sizeof length + length + tail.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  const InputLimit limit(size);
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    size_t sum = 0;
    for (const checkpoint::SafetensorsTensor& tensor : checkpoint::read_safetensors(bytes)) {
      for (const char byte : bytes.substr(tensor.offset, tensor.bytes)) {
        sum += static_cast<unsigned char>(byte);
      }
    }
    return sum == SIZE_MAX ? 1 : 0;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
