// SPDX-License-Identifier: MIT
// Any bytes as a genai_config.json, a generation_config.json or an overlay: a configuration, or an
// error that is not internal.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "llm/config/change_config.h"
#include "llm/config/genai_config.h"

using namespace lathe;
using namespace lathe::llm;

namespace {

constexpr std::string_view kWhole =
    R"({"model": {"type": "llama", "context_length": 128, "vocab_size": 512, "eos_token_id": [2, 7],
    "decoder": {"filename": "model.onnx", "num_hidden_layers": 2, "session_options":
    {"provider_options": [{"cuda": {"enable_cuda_graph": "1"}}]}}}, "search": {"top_k": 7}})";
constexpr size_t kLongestMessage = 64 << 10;

template <class F>
void expect_answer(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::internal &&
        std::string_view(error.what()).size() <= kLongestMessage)
      return;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_answer([&] { read_genai_config(text, "fuzz"); });
  expect_answer([&] {
    GenaiConfig config = read_genai_config(kWhole, "whole");
    read_generation_config(text, "fuzz", config);
  });
  expect_answer([&] { read_genai_config(overlay_config(kWhole, text), "fuzz"); });
  return 0;
}
