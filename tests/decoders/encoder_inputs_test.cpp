// SPDX-License-Identifier: MIT
// A batch of features through the C API, one tensor for all prompts, on the zoo's whisper: each
// prompt uses its own, as it does alone.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "lathe/lathe.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe {
namespace {

using Tokens = std::vector<int32_t>;

const lathe_api& api() { return *lathe_get_api(LATHE_API_VERSION); }

void check_done(lathe_error* error) {
  if (error == nullptr) return;
  ADD_FAILURE() << api().error_message(error);
  api().error_free(error);
}

std::string message_of(lathe_error* error) {
  if (error == nullptr) return "no error";
  const std::string text = api().error_message(error);
  api().error_free(error);
  return text;
}

struct Free {
  void operator()(lathe_model* handle) const { api().model_free(handle); }
  void operator()(lathe_generator* handle) const { api().generator_free(handle); }
  void operator()(lathe_tensor* handle) const { api().tensor_free(handle); }
};
using Model = std::unique_ptr<lathe_model, Free>;
using Generator = std::unique_ptr<lathe_generator, Free>;
using Tensor = std::unique_ptr<lathe_tensor, Free>;

class EncoderInputsTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kBands = 80;
  static constexpr int64_t kFrames = 3000;

  void SetUp() override {
    const std::string folder = llm::zoo_folder("whisper");
    if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/whisper";
    lathe_model_config* config = nullptr;
    check_done(api().model_config_create((folder + "/fp32").c_str(), &config));
    lathe_error* known = api().model_config_set_target(config, GetParam());
    if (known != nullptr) {
      const std::string why = message_of(known);
      api().model_config_free(config);
      GTEST_SKIP() << why;
    }
    lathe_model* model = nullptr;
    check_done(api().model_create(config, &model));
    api().model_config_free(config);
    model_.reset(model);
    ASSERT_NE(model_, nullptr);
  }

  // Features of the prompts [first, first + count).
  static Tensor features(int64_t first, int64_t count) {
    const int64_t dims[] = {count, kBands, kFrames};
    lathe_tensor* made = nullptr;
    check_done(api().tensor_create(LATHE_F32, dims, 3, &made));
    auto* value = static_cast<float*>(api().tensor_data(made));
    for (int64_t seed = first; seed < first + count; ++seed) {
      for (int64_t i = 0; i < kBands; ++i) {
        for (int64_t t = 0; t < kFrames; ++t) {
          const int64_t mixed = (7919 * i + (104729 + seed) * t) % 1009;
          *value++ = static_cast<float>(static_cast<double>(mixed) / 504.5 - 1);
        }
      }
    }
    return Tensor(made);
  }

  Generator generator() const {
    lathe_generator* made = nullptr;
    check_done(api().generator_create(model_.get(), nullptr, &made));
    return Generator(made);
  }
  static void give(const Generator& generator, const Tensor& features) {
    check_done(api().generator_set_model_input(generator.get(), "audio_features", features.get()));
  }
  static void append(const Generator& generator, size_t prompt, const Tokens& tokens) {
    check_done(
        api().generator_append_tokens(generator.get(), prompt, tokens.data(), tokens.size()));
  }

  // The prompts' logits before each of some tokens, consecutive.
  std::vector<std::vector<float>> logits(const Generator& generator) const {
    const auto width = static_cast<size_t>(api().model_vocabulary(model_.get()));
    std::vector<std::vector<float>> all(api().generator_prompt_count(generator.get()));
    for (int step = 0; step < 5; ++step) {
      lathe_tensor* given = nullptr;
      check_done(api().generator_get_logits(generator.get(), nullptr, &given));
      const Tensor owner(given);
      const auto* values = static_cast<const float*>(api().tensor_data(given));
      for (size_t i = 0; i < all.size(); ++i) {
        all[i].insert(all[i].end(), values + i * width, values + (i + 1) * width);
      }
      check_done(api().generator_generate_next_token(generator.get(), nullptr));
    }
    return all;
  }

  Model model_;
};

TEST_P(EncoderInputsTest, each_prompt_of_a_batch_has_its_own) {
  const std::vector<Tokens> prompts = {{3, 40, 7, 261}, {9}, {12, 5, 80}};
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Generator one = generator();
    give(one, features(static_cast<int64_t>(i), 1));
    append(one, 0, prompts[i]);
    alone.push_back(logits(one).front());
  }
  EXPECT_NE(alone[0], alone[1]);
  const Tensor all = features(0, 3);
  const Generator inputs_first = generator();
  give(inputs_first, all);
  ASSERT_EQ(api().generator_prompt_count(inputs_first.get()), 3U);
  for (size_t i = 0; i < prompts.size(); ++i) append(inputs_first, i, prompts[i]);
  EXPECT_EQ(logits(inputs_first), alone);
  const Generator tokens_first = generator();
  for (size_t i = 0; i < prompts.size(); ++i) append(tokens_first, i, prompts[i]);
  give(tokens_first, all);
  EXPECT_EQ(logits(tokens_first), alone);
}

TEST_P(EncoderInputsTest, require_one_part_per_prompt) {
  const Generator tokens_first = generator();
  append(tokens_first, 0, {3});
  append(tokens_first, 1, {3});
  const Tensor three = features(0, 3);
  const std::string message = message_of(
      api().generator_set_model_input(tokens_first.get(), "audio_features", three.get()));
  EXPECT_EQ(message,
            "input 'audio_features' is f32[3, 80, 3000], with 3 prompts along the first axis, but "
            "there are 2");
  const Generator inputs_first = generator();
  give(inputs_first, three);
  const Tokens tokens = {3};
  EXPECT_EQ(message_of(api().generator_append_tokens(inputs_first.get(), 3, tokens.data(), 1)),
            "cannot add prompt 3: the encoder's inputs are set for 3 prompts");
  size_t added = 0;
  EXPECT_EQ(
      message_of(api().generator_add_prompt(inputs_first.get(), nullptr, tokens.data(), 1, &added)),
      "cannot add prompt 3: the encoder's inputs are set for 3 prompts");
}

INSTANTIATE_TEST_SUITE_P(targets, EncoderInputsTest, testing::Values("ref", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lathe
