// SPDX-License-Identifier: MIT
// Any bytes as tokenizer.json: an error, or a tokenizer that encodes and decodes texts.
#include <cstdint>

#include "base/error.h"
#include "llm/tokenizer/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe::tokenizer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer(read_tokenizer_json(bytes));
    for (const std::string_view text : {"Hello, w\u00f6rld 42!", " \t\n ",
                                        "\u65e5\u672c\u8a9e e\u0301 \U0001F600 <mask> word", ""}) {
      EncodeOptions options;
      options.detailed = true;
      const Encoding encoding = tokenizer.encode_pair(text, "x y", options);
      tokenizer.decode(encoding.ids, false);
    }
  } catch (const lathe::Error&) {
  }
  return 0;
}
