// SPDX-License-Identifier: MIT
// Steps with decoders of make_decoder.py, by its flags.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "llm/model/generator.h"
#include "tests/decoders/made_decoder.h"

namespace lathe::llm {

using Values = std::vector<float>;
using Numbers = std::vector<int64_t>;

class ItemsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 30; ++i) prompt_.push_back((i * 7 + i / 3) % 29);
  }
  static std::shared_ptr<const Decoder> open(const std::vector<std::string>& flags,
                                             const char* target = "cpu") {
    return make_decoder(0, find_target(target) == nullptr ? "ref" : target, flags);
  }
  static Values run(const Decoder& decoder, StepRequest request) {
    request.logits = LogitPositions::all();
    const Tensor logits = decoder.step({&request, 1});
    return {logits.as<float>(), logits.as<float>() + logits.count()};
  }
  // Embeddings of these tokens from `embedding.f32`.
  static Embeddings embed(const Decoder& decoder, std::span<const Token> tokens) {
    std::ifstream file(decoder.folder() + "/embedding.f32", std::ios::binary);
    Tensor values(ElementType::f32, {std::ssize(tokens), 64});
    for (size_t i = 0; i < tokens.size(); ++i) {
      file.seekg(tokens[i] * 256);
      file.read(values.as<char>() + i * 256, 256);
    }
    EXPECT_TRUE(file.good());
    return make_embeddings(values);
  }
  static std::string error_of(const Decoder& decoder, const StepRequest& request) {
    const int64_t before = request.sequence->length();
    try {
      decoder.step({&request, 1});
    } catch (const Error& error) {
      EXPECT_EQ(request.sequence->length(), before);
      return error.message();
    }
    return "";
  }
  std::span<const Token> prompt_tokens(size_t begin, size_t count) const {
    return std::span(prompt_).subspan(begin, count);
  }

  std::vector<Token> prompt_;
};

#define SKIP_WITHOUT(decoder) \
  if ((decoder) == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv"

inline Values last(const Values& values, size_t tokens) {
  return {values.end() - static_cast<int64_t>(tokens) * 32, values.end()};
}

inline Numbers count_from(int64_t first, size_t count) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<int64_t>(i);
  return numbers;
}

}  // namespace lathe::llm
