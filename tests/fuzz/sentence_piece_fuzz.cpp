// SPDX-License-Identifier: MIT
// Any bytes as a SentencePiece model, or as another format of load_tokenizer_bytes.
#include <cstdint>

#include "base/error.h"
#include "llm/tokenizer/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lathe::tokenizer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"x.model", "x"}) {
    try {
      const auto tokenizer = load_tokenizer_bytes(bytes, name);
      for (const std::string_view text : {"Hello  w\u00f6rld\u2581 42", "\uff21\ufb01 <s>", " "}) {
        EncodeOptions options;
        options.detailed = true;
        tokenizer->decode(tokenizer->encode(text, options).ids);
      }
    } catch (const lathe::Error&) {
    }
  }
  return 0;
}
