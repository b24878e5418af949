// SPDX-License-Identifier: MIT
// Any text is either a program that prints, parses and prints as the same text, or an error of the
// user's, never an internal one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "ir/dot.h"
#include "ir/json.h"
#include "ir/parse.h"
#include "ir/print.h"

namespace {

[[noreturn]] void stop(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<lathe::Program> program;
  try {
    program = lathe::parse_program(text);
  } catch (const lathe::Error& error) {
    if (error.kind() == lathe::ErrorKind::internal) stop("internal error", error.what());
    return 0;
  }
  const std::string once = lathe::print(*program);
  try {
    const auto again = lathe::parse_program(once, lathe::with_literals_of(*program));
    const std::string twice = lathe::print(*again);
    if (once != twice) stop("the text changes", once + "\n---\n" + twice);
  } catch (const lathe::Error& error) {
    stop("printed text does not parse", error.what() + ("\n" + once));
  }
  (void)lathe::to_dot(*program);
  (void)lathe::to_json(*program);
  return 0;
}
