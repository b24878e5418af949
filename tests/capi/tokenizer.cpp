// SPDX-License-Identifier: MIT
// The C++ wrappers of tokenizers. Prints "N passed, N failed, 0 skipped".
#include "lathe/tokenizer.h"

#include <array>
#include <cstdio>
#include <string>

namespace {

int passed = 0;
int failed = 0;

void expect(bool condition, const char* what) {
  ++(condition ? passed : failed);
  if (!condition) std::printf("failed: %s\n", what);
}

using Ids = std::vector<uint32_t>;

// The ids are those of Hugging Face's `tokenizers` for this file.
void test_encode(const lathe::Tokenizer& tokenizer) {
  expect(tokenizer.size() == 1000, "the size");
  expect(tokenizer.encode("Hello, world!").ids() == Ids{40, 69, 589, 79, 12, 276, 298, 800, 1},
         "ids");
  const auto encoding = tokenizer.encode_pair("h\u00e9", "x", {.with_offsets = true});
  expect(encoding.type_ids() == Ids{0, 0, 0, 1}, "type ids");
  const auto offsets = encoding.offsets();
  expect(offsets.size() == 4 && offsets[1].begin == 1 && offsets[2].end == 2, "offsets");
  expect(encoding.tokens().size() == 4 && encoding.tokens()[1] == "\u00c3", "tokens");
  expect(encoding.words()[3] == 0 && encoding.attention_mask()[0] == 1, "words and mask");
  expect(encoding.overflowing().empty(), "overflow");
  expect(tokenizer.encode("x").tokens().empty(), "no details by default");
  const std::array<std::string_view, 3> texts{"Hello", "", " world"};
  const auto batch = tokenizer.encode_batch(texts, {.threads = 2});
  expect(batch.size() == 3 && batch[0].ids() == Ids{40, 69, 589, 79} && batch[1].size() == 0,
         "a batch");
  expect(tokenizer.decode(Ids{40, 69, 589, 79, 0}) == "Hello", "decoding");
  expect(tokenizer.decode(Ids{40, 0}, true) == "H<|end|>", "decoding with special tokens");
  expect(tokenizer.token_to_id("<|end|>") == 0u && !tokenizer.token_to_id("unknown"),
         "ids of tokens");
  expect(tokenizer.id_to_token(40) == "H", "tokens of ids");
  expect(tokenizer.special_token("bos_token").empty(), "names");
}

void test_errors(const lathe::Tokenizer& tokenizer) {
  try {
    tokenizer.encode("ab\xff");
    expect(false, "invalid UTF-8 throws");
  } catch (const lathe::Error& error) {
    expect(error.kind() == LATHE_INVALID_ARGUMENT, "its kind");
    expect(std::string(error.what()).find("byte 2 of 3") != std::string::npos, "its offset");
  }
  expect(
      tokenizer.decode(tokenizer.encode("ab\xff", {.replace_invalid = true}).ids()) == "ab\uFFFD",
      "replacing");
  try {
    lathe::Tokenizer::from_memory(std::as_bytes(std::span("{\"version\": 3}", 14)), "x.json");
    expect(false, "a broken file throws");
  } catch (const lathe::Error& error) {
    expect(error.kind() == LATHE_UNSUPPORTED, "the kind of a broken file");
  }
}

void test_streams(const lathe::Tokenizer& tokenizer) {
  lathe::DecodeStream stream(tokenizer);
  lathe::StopStrings stops({"llo, w", "orl", "zzz"});
  std::string text;
  std::string all;
  for (const uint32_t id : tokenizer.encode("H\u00e9llo, world!").ids()) {
    const std::string step = stream.step(id);
    all += step;
    text += stops.push(step);
  }
  expect(all + stream.finish() == "H\u00e9llo, world!", "a stream");
  expect(text == "H\u00e9" && stops.found() == 0, "stop strings");
  expect(stops.finish().empty(), "nothing after a stop");
  lathe::StopStrings other({"abc", "bd"});
  std::string pushed = other.push("a") + other.push("b") + other.push("x") + other.push("ab");
  expect(pushed == "abx" && other.finish() == "ab" && other.found() == -1, "holding back");
}

}  // namespace

int main(int argc, char** argv) {
  const lathe::Tokenizer tokenizer(argc > 1 ? argv[1] : "examples/tokenizer");
  test_encode(tokenizer);
  test_errors(tokenizer);
  test_streams(tokenizer);
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
