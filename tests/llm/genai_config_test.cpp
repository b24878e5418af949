// SPDX-License-Identifier: MIT
#include "llm/config/genai_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "llm/config/change_config.h"
#include "llm/config/json_object.h"
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

TEST(GenaiConfig, names_the_wrong_member) {
  EXPECT_EQ(message(document(R"(, "head_sise": 16)")),
            "InvalidModel: unknown key 'model.decoder.head_sise' (did you mean 'head_size'?)");
  EXPECT_EQ(message(document(R"(, "head_size": "16")")),
            "InvalidModel: 'model.decoder.head_size' is \"16\", expected an integer from 0 on");
  EXPECT_EQ(
      message(document(R"(, "inputs": {"input_idz": "x"})")),
      "InvalidModel: unknown key 'model.decoder.inputs.input_idz' (did you mean 'input_ids'?)");
  EXPECT_EQ(message(document("", R"(, "draft": {})")),
            "Unsupported: 'model.draft' is not supported");
  EXPECT_EQ(message(document("", "", R"(, "search": {"topk": 5})")),
            "InvalidArgument: unknown search option 'topk' (did you mean 'top_k'?)");
  EXPECT_EQ(message(document("", "", R"(, "speculative": {"ngram_size": 3})")),
            "Unsupported: 'speculative' is not supported");
  EXPECT_EQ(message(R"({"model": {"context_length": 8, "decoder": {}}})"),
            "InvalidModel: 'model.type' is missing");
  EXPECT_EQ(message(R"({"model": {"type": "llama", "decoder": {}}})"),
            "InvalidModel: 'model.context_length' is 0, expected a positive integer");
  EXPECT_EQ(message(R"({"model": {"type": "llama", "context_length": 8, "decoder": {}}})"),
            "InvalidModel: 'model.decoder.filename' is missing");
  EXPECT_EQ(message(R"({"model": [1]})"), "InvalidModel: 'model' is [1], expected an object");
  EXPECT_EQ(message("[]"), "InvalidModel: the document is [], expected an object");
  EXPECT_EQ(
      message(
          R"({"model": {"type": "llama", "context_length": 8, "vocab_size": 4, "eos_token_id": 9,
    "decoder": {"filename": "m"}}})"),
      "InvalidModel: 'model.eos_token_id' is 9, but the vocabulary has 4 tokens");
  EXPECT_TRUE(
      message(R"({"model": )").starts_with("InvalidModel: genai_config.json is not valid JSON: "));
  EXPECT_EQ(message(std::string(100000, '[')).substr(0, 26), "InvalidModel: genai_config");
}

TEST(GenaiConfig, an_unknown_type_follows_the_structure) {
  const auto read = [](std::string_view more) {
    return read_genai_config(fmt::format(R"({{"model": {{"type": "lama", "context_length": 8,
        "decoder": {{"filename": "m"}}{}}}}})",
                                         more),
                             "genai_config.json");
  };
  EXPECT_FALSE(read("").type_is_known);
  EXPECT_EQ(read("").kind, ModelKind::decoder);
  EXPECT_EQ(read(R"(, "encoder": {"filename": "e"})").kind, ModelKind::encoder_decoder);
  for (const std::string_view part : {"vision", "speech", "embedding"}) {
    EXPECT_EQ(
        message(fmt::format(R"({{"model": {{"type": "lama", "context_length": 8,
        "{}": {{"filename": "v"}}, "decoder": {{"filename": "m"}}}}}})",
                            part)),
        fmt::format("Unsupported: 'model.{}' requires a known model type, but 'model.type' is "
                    "'lama' (did you mean 'llama'?)",
                    part));
  }
}

TEST(GenaiConfig, applies_an_overlay) {
  const std::string joined = overlay_config(document(R"(, "head_size": 16)"),
                                            R"({"model": {"decoder": {"head_size": 32}}})");
  const GenaiConfig config = read_genai_config(joined, "overlaid");
  EXPECT_EQ(config.decoder.head_size, 32);
  EXPECT_EQ(config.decoder.filename, "model.onnx");
}

TEST(GenaiConfig, merges_a_generation_config) {
  GenaiConfig config = read_genai_config(document(""), "genai_config.json");
  read_generation_config(
      R"({"eos_token_id": [7, 9], "temperature": 0.6, "transformers_version": "5"})",
      "generation_config.json", config);
  EXPECT_EQ(config.end_tokens, (std::vector<int64_t>{2, 7, 9}));
  EXPECT_DOUBLE_EQ(config.search.temperature, 0.6);
}

constexpr std::string_view kGeneration =
    R"({"bad_words_ids": [[1, 2]], "begin_suppress_tokens": [4],
    "do_sample": true, "early_stopping": "never", "epsilon_cutoff": 0.125, "eta_cutoff": 0.25,
    "exponential_decay_length_penalty": [6, 1.5], "forced_bos_token_id": 7, "forced_eos_token_id": [8],
    "length_penalty": 2.0, "max_length": 10, "max_new_tokens": 11, "min_length": 12,
    "min_new_tokens": 13, "min_p": 0.75, "no_repeat_ngram_size": 14, "num_beams": 15,
    "num_return_sequences": 16, "repetition_penalty": 1.25, "sequence_bias": [[[18, 19], -3.0]],
    "stop_strings": ["a"], "suppress_tokens": [20], "temperature": 0.375, "top_k": 21,
    "top_p": 0.625, "typical_p": 0.875})";

TEST(GenaiConfig, keeps_its_providers_when_others_are_appended) {
  Json json = Json::parse(document(
      R"(, "session_options": {"provider_options": [{"CUDAExecutionProvider": {"a": "1"}}]})"));
  append_provider(json, "cpu");
  append_provider(json, "cuda");
  set_provider_option(json, "cuda", "enable_cuda_graph", "1");
  set_provider_option(json, "QNN", "backend_path", "x");
  const auto providers = [&] {
    std::string text;
    const GenaiConfig config = read_genai_config(json.dump(), "changed");
    for (const ProviderChoice& choice : config.decoder.session.providers) {
      text += fmt::format("{} {}; ", choice.name, Json(choice.options).dump());
    }
    return text;
  };
  EXPECT_EQ(
      providers(),
      R"(CUDAExecutionProvider {"a":"1","enable_cuda_graph":"1"}; cpu {}; QNN {"backend_path":"x"}; )");
  clear_providers(json);
  append_provider(json, "dml");
  EXPECT_EQ(providers(), "dml {}; ");
  Json none = Json::parse(document(""));
  append_provider(none, "dml");
  EXPECT_EQ(none["model"]["decoder"]["session_options"]["provider_options"].dump(),
            R"([{"dml":{}}])");
  Json wrong = Json::parse(document(R"(, "session_options": {"provider_options": "cuda"})"));
  EXPECT_THROW(append_provider(wrong, "dml"), Error);
  wrong = Json::parse(R"({"model": [1]})");
  EXPECT_THROW(clear_providers(wrong), Error);
}

TEST(GenaiConfig, reads_missing_search_options_from_a_generation_config) {
  const Json wanted = Json::parse(kGeneration);
  GenaiConfig config = read_genai_config(document(""), "genai_config.json");
  read_generation_config(kGeneration, "generation_config.json", config);
  const Json got = search_options_json(config.search);
  const Json defaults = search::search_options_json({});
  for (const auto& [name, value] : wanted.items()) {
    EXPECT_EQ(got[name], value) << name;
    EXPECT_NE(got[name], defaults[name]) << name;
    // Values of genai_config.json win, even defaults.
    const std::string search =
        fmt::format(R"(, "search": {{"{}": {}}})", name, defaults[name].dump());
    if (defaults[name].is_null()) continue;
    GenaiConfig settled = read_genai_config(document("", "", search), "genai_config.json");
    read_generation_config(kGeneration, "generation_config.json", settled);
    EXPECT_EQ(search_options_json(settled.search)[name], defaults[name]) << name;
  }
}

TEST(GenaiConfig, lists_unsupported_options_of_a_generation_config) {
  GenaiConfig config = read_genai_config(document(""), "genai_config.json");
  read_generation_config(
      R"({"guidance_scale": 1, "num_beam_groups": 1, "force_words_ids": [], "penalty_alpha": 0.6,
          "watermarking_config": null, "forced_decoder_ids": [[1, 5]], "cache_implementation": "static"})",
      "generation_config.json", config);
  EXPECT_EQ(config.unsupported, (std::vector<std::string>{"forced_decoder_ids", "penalty_alpha"}));
}

TEST(GenaiConfig, refuses_speech_models_by_name) {
  EXPECT_EQ(
      message(document("", R"(, "num_mels": 80)")),
      "Unsupported: 'model.num_mels' is for speech models, which are not supported: the type is "
      "'llama'");
  EXPECT_EQ(message(document("", R"(, "tdt_durations": [0, 1])")),
            "Unsupported: 'model.tdt_durations' is for speech models, which are not supported: the "
            "type is 'llama'");
}

TEST(GenaiConfig, reads_the_text_part_of_multimodal_models) {
  const GenaiConfig config = read_genai_config(
      document("", R"(, "vision": {"adapter_filename": "vision.onnx_adapter", "pipeline": [
                 {"embed": {"filename": "patches.onnx", "run_on_cpu": true}}],
                 "inputs": {"pixel_values": "pixels"}},
               "speech": {"filename": "speech.onnx", "adapter_filename": "speech.onnx_adapter"},
               "embedding": {"filename": "embedding.onnx", "outputs": {"inputs_embeds": "rows"}})"),
      "genai_config.json");
  EXPECT_EQ(config.parts.at("embedding").outputs.at("inputs_embeds"), "rows");
  EXPECT_EQ(config.parts.at("vision").inputs.at("pixel_values"), "pixels");
  EXPECT_EQ(message(document("", R"(, "vision": {"pipeline": 3})")),
            "InvalidModel: 'model.vision.pipeline' is a number, expected a list");
  EXPECT_EQ(message(document("", R"(, "embedding": {"adapter_filename": "x"})")),
            "Unsupported: 'model.embedding.adapter_filename' is not supported");
}

TEST(GenaiConfig, knows_the_names_of_providers) {
  ASSERT_NE(find_provider("CUDAExecutionProvider"), nullptr);
  EXPECT_EQ(find_provider("cuda")->target, "gpu");
  EXPECT_EQ(find_provider("cpu")->target, "cpu");
  EXPECT_EQ(find_provider("warp"), nullptr);
}

// Reads every configuration of a text model in the test data; speech is refused by name.
TEST(GenaiConfig, reads_the_models_of_the_test_data) {
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
