// SPDX-License-Identifier: MIT
// Bytes as a GGUF file: its keys and tensors.
#include <string_view>

#include "base/error.h"
#include "import/checkpoint/files/gguf.h"
#include "tests/fuzz/input_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
  const InputLimit limit(size);
  try {
    const checkpoint::GgufFile file({reinterpret_cast<const char*>(data), size});
    for (const std::string_view key : file.keys()) {
      try {
        if (file.is_array(key)) {
          file.numbers(key);
        } else {
          file.number(key);
        }
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::internal) throw;
      }
    }
    size_t sum = 0;
    for (const checkpoint::GgufTensor& tensor : file.read_tensors()) {
      for (const char byte : tensor.bytes) sum += static_cast<unsigned char>(byte);
    }
    return sum == SIZE_MAX ? 1 : 0;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
  }
  return 0;
}
