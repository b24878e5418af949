// SPDX-License-Identifier: MIT
// Any bytes as an ONNX model, binary or textual: an imported program must be valid and printable.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "import/onnx/importer.h"
#include "import/onnx/reader.h"
#include "ir/print.h"
#include "ir/verify.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  lathe::set_log_sink([](int, std::string_view) {});  // warnings are results, too
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::unique_ptr<lathe::Program> program;
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    program = lathe::import_onnx(lathe::onnx::parse_model(bytes, "fuzz", nullptr));
  } catch (const lathe::Error& error) {
    if (error.kind() == lathe::ErrorKind::internal) __builtin_trap();
    return 0;
  }
  lathe::verify(*program);
  lathe::print(*program);
  return 0;
}
