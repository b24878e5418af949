// SPDX-License-Identifier: MIT
// Encoders of texts through the C++ wrappers, on examples/encoder; and quantised weights. Prints
// "N passed, N failed, 0 skipped".
#include "lathe/sentence_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace {

int passed = 0;
int failed = 0;
const std::string kFolder = "examples/encoder";

void expect(bool condition, const char* what) {
  ++(condition ? passed : failed);
  if (!condition) std::printf("failed: %s\n", what);
}

template <class F>
void expect_error(lathe_error_kind kind, const std::string& part, F&& body) {
  try {
    body();
    expect(false, part.c_str());
  } catch (const lathe::Error& error) {
    const bool fits =
        error.kind() == kind && std::string(error.what()).find(part) != std::string::npos;
    if (!fits) std::printf("kind %d: %s\n", error.kind(), error.what());
    expect(fits, part.c_str());
  }
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * double{b[i]};
    aa += double{a[i]} * double{a[i]};
    bb += double{b[i]} * double{b[i]};
  }
  return product / std::sqrt(aa * bb);
}

void check_embeddings() {
  const lathe::SentenceEncoder encoder(kFolder);
  expect(encoder.size() == 32 && encoder.max_tokens() == 32, "sizes");
  expect(encoder.prompt().empty(), "no prompt");
  const std::vector<std::string> texts = {"a cat sleeps", "the dog runs", "rain and cold wind"};
  const lathe::Tensor rows = encoder.encode(texts);
  expect(rows.dims()[0] == 3 && rows.dims()[1] == 32, "shape");
  const std::span<const float> all = rows.values<float>();
  const auto row = [&](size_t i) { return all.subspan(i * 32, 32); };
  expect(cosine(row(0), row(1)) > cosine(row(0), row(2)), "texts of one topic are nearer");
  const lathe::Tensor alone = encoder.encode(std::array{"cat sleeps"}, "a ");
  expect(std::ranges::equal(alone.values<float>(), row(0)), "a prompt precedes the text");
  expect(encoder.encode(std::vector<std::string>{}).dims()[0] == 0, "no texts");
}

void check_quantised() {
  const std::array texts = {"a cat sleeps"};
  lathe::Config config(kFolder);
  config.set_quantize("int8");
  config.set_threads(1);
  const lathe::Tensor exact = lathe::SentenceEncoder(kFolder).encode(texts);
  const lathe::Tensor near = lathe::SentenceEncoder(config).encode(texts);
  const double value = cosine(exact.values<float>(), near.values<float>());
  expect(value > 0.999 && value < 1, "int8 weights are near");
  expect_error(LATHE_INVALID_ARGUMENT, "quantize is 'int3'", [&] { config.set_quantize("int3"); });
}

void check_errors() {
  const lathe::SentenceEncoder encoder(kFolder);
  expect_error(LATHE_INVALID_ARGUMENT, "in text 2",
               [&] { encoder.encode(std::array<std::string_view, 2>{"cat", "\xff"}); });
  expect_error(LATHE_INVALID_ARGUMENT, "no prompt 'query'", [&] { encoder.prompt("query"); });
  expect_error(LATHE_IO, "is neither a folder nor a GGUF file",
               [] { lathe::SentenceEncoder("no/such/folder/here"); });
  expect_error(LATHE_UNSUPPORTED, "use 'lathe embed'", [] { lathe::Model("examples/encoder"); });
  expect_error(LATHE_UNSUPPORTED, "take no files in memory", [] {
    lathe::Config config(kFolder);
    config.overlay("{}");
    lathe::SentenceEncoder made(config);
  });
}

}  // namespace

int main() {
  check_embeddings();
  check_quantised();
  check_errors();
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
