// SPDX-License-Identifier: MIT
#include "llm/config/genai_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "llm/config/providers.h"

namespace lathe::llm {
namespace {

std::string document(std::string_view decoder, std::string_view model = "",
                     std::string_view root = "") {
  return fmt::format(R"({{"model": {{"type": "llama", "context_length": 128, "vocab_size": 512,
    "eos_token_id": [2, 7], "bos_token_id": 1{}, "decoder": {{"filename": "model.onnx"{}}}}}{}}})",
                     model, decoder, root);
}

std::string message(std::string_view json) {
  try {
    read_genai_config(json, "genai_config.json");
  } catch (const Error& error) {
    return fmt::format("{}: {}", error_kind_info(error.kind()).name, error.message());
  }
  return "no error";
}

TEST(GenaiConfig, names_files_tokens_and_search) {
  const GenaiConfig config = read_genai_config(
      document(
          R"(, "head_size": 16, "num_hidden_layers": 2, "sliding_window": {"window_size": 32, "layers": [0]},
        "inputs": {"past_key_names": "past_key_values.%d.key"}, "session_options": {"log_id": "x",
        "provider_options": [{"cuda": {"enable_cuda_graph": "1"}}]})",
          "", R"(, "search": {"top_k": 7, "past_present_share_buffer": true})"),
      "genai_config.json");
  EXPECT_EQ(config.end_tokens, (std::vector<int64_t>{2, 7}));
  EXPECT_EQ(config.token("bos_token_id"), 1);
  EXPECT_EQ(config.token("pad_token_id"), std::nullopt);
  EXPECT_EQ(config.decoder.filename, "model.onnx");
  EXPECT_EQ(config.decoder.head_size, 16);
  EXPECT_EQ(config.decoder.window->layers, std::vector<int64_t>{0});
  EXPECT_EQ(config.decoder.inputs.at("past_key_names"), "past_key_values.%d.key");
  ASSERT_EQ(config.decoder.session.providers.size(), 1U);
  EXPECT_EQ(config.decoder.session.providers[0].options.at("enable_cuda_graph"), "1");
  EXPECT_EQ(config.decoder.session.entries.at("log_id"), "x");
  EXPECT_EQ(config.search.top_k, 7);
}

TEST(GenaiConfig, says_what_is_wrong_and_where) {
  EXPECT_EQ(message(document(R"(, "head_sise": 16)")),
            "InvalidModel: there is no key 'model.decoder.head_sise' (did you mean 'head_size'?)");
  EXPECT_EQ(message(document(R"(, "head_size": "16")")),
            "InvalidModel: 'model.decoder.head_size' is \"16\", expected an integer from 0 on");
  EXPECT_EQ(
      message(document(R"(, "inputs": {"input_idz": "x"})")),
      "InvalidModel: there is no key 'model.decoder.inputs.input_idz' (did you mean 'input_ids'?)");
  EXPECT_EQ(message(document("", R"(, "draft": {})")),
            "Unsupported: 'model.draft' is not supported");
  EXPECT_EQ(message(document("", "", R"(, "search": {"topk": 5})")),
            "InvalidArgument: there is no search option 'topk' (did you mean 'top_k'?)");
  EXPECT_EQ(message(document("", "", R"(, "speculative": {"ngram_size": 3})")),
            "Unsupported: 'speculative' is not supported");
  EXPECT_EQ(
      message(R"({"model": {"type": "lama", "context_length": 8, "decoder": {}}})"),
      "Unsupported: 'model.type' is 'lama', which is not a known type (did you mean 'llama'?)");
  EXPECT_EQ(message(R"({"model": {"type": "llama", "decoder": {}}})"),
            "InvalidModel: 'model.context_length' is 0, expected a positive integer");
  EXPECT_EQ(message(R"({"model": {"type": "llama", "context_length": 8, "decoder": {}}})"),
            "InvalidModel: 'model.decoder.filename' is missing");
  EXPECT_EQ(message(R"({"model": [1]})"), "InvalidModel: 'model' is [1], expected an object");
  EXPECT_EQ(message("[]"), "InvalidModel: 'the document' is [], expected an object");
  EXPECT_EQ(
      message(
          R"({"model": {"type": "llama", "context_length": 8, "vocab_size": 4, "eos_token_id": 9,
    "decoder": {"filename": "m"}}})"),
      "InvalidModel: 'model.eos_token_id' is 9, the vocabulary has 4 tokens");
  EXPECT_TRUE(
      message(R"({"model": )").starts_with("InvalidModel: genai_config.json is not JSON: "));
  EXPECT_EQ(message(std::string(100000, '[')).substr(0, 26), "InvalidModel: genai_config");
}

TEST(GenaiConfig, takes_an_overlay) {
  const std::string joined = overlay_config(document(R"(, "head_size": 16)"),
                                            R"({"model": {"decoder": {"head_size": 32}}})");
  const GenaiConfig config = read_genai_config(joined, "overlaid");
  EXPECT_EQ(config.decoder.head_size, 32);
  EXPECT_EQ(config.decoder.filename, "model.onnx");
}

TEST(GenaiConfig, adds_what_a_generation_config_says) {
  GenaiConfig config = read_genai_config(document(""), "genai_config.json");
  read_generation_config(
      R"({"eos_token_id": [7, 9], "temperature": 0.6, "transformers_version": "5"})",
      "generation_config.json", config);
  EXPECT_EQ(config.end_tokens, (std::vector<int64_t>{2, 7, 9}));
  EXPECT_DOUBLE_EQ(config.search.temperature, 0.6);
}

TEST(GenaiConfig, knows_the_names_of_providers) {
  ASSERT_NE(find_provider("CUDAExecutionProvider"), nullptr);
  EXPECT_EQ(find_provider("cuda")->target, "gpu");
  EXPECT_EQ(find_provider("cpu")->target, "cpu");
  EXPECT_EQ(find_provider("warp"), nullptr);
}

// Every configuration at hand that describes text models reads; speech is refused by name.
TEST(GenaiConfig, reads_the_models_at_hand) {
  const std::filesystem::path models = "../shared/models";
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "there is no " << models;
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(models)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("genai_config") || entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const std::string said = message(text.str());
    EXPECT_TRUE(said == "no error" || said.starts_with("Unsupported: 'model.vision.pipeline'"))
        << entry.path() << ": " << said;
    ++count;
  }
  EXPECT_GE(count, 30);
}

}  // namespace
}  // namespace lathe::llm
