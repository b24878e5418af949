// SPDX-License-Identifier: MIT
// Bytes as a safetensors file: every tensor lies in the file.
#include <string_view>

#include "base/error.h"
#include "import/checkpoint/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe;
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
