// SPDX-License-Identifier: MIT
// Any text with a tokenizer of each kind: ids and details agree, and decoding returns UTF-8.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/file_map.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/stream.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace {

using namespace lathe;
using namespace lathe::tokenizer;

const std::vector<std::shared_ptr<const Tokenizer>>& tokenizers() {
  static const auto all = [] {
    std::vector<std::shared_ptr<const Tokenizer>> out;
    const std::string folder = "tests/llm/tokenizers";
    for (const std::string& name : list_folder(folder)) {
      if (name.ends_with(".json")) out.push_back(load_tokenizer(join_path(folder, name)));
    }
    return out;
  }();
  return all;
}

void check_that(bool good) {
  if (!good) std::abort();
}

}  // namespace

// The first byte selects the tokenizer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& tokenizer = tokenizers()[data[0] % tokenizers().size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  EncodeOptions options;
  options.replace_invalid = true;
  try {
    const Encoding ids = tokenizer->encode(text, options);
    options.detailed = true;
    check_that(tokenizer->encode(text, options).ids == ids.ids);
    const std::string decoded = tokenizer->decode(ids.ids);
    check_that(unicode::find_invalid_utf8(decoded) == std::string_view::npos);
    DecodeStream stream(tokenizer);
    std::string all;
    for (const uint32_t id : ids.ids) all += stream.step(id);
    all += stream.finish();
    check_that(unicode::find_invalid_utf8(all) == std::string_view::npos);
    tokenizer->encode(text.substr(0, 50), {.replace_invalid = false});
  } catch (const Error&) {
  }
  return 0;
}
