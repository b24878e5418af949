// SPDX-License-Identifier: MIT
// Readers of checkpoint files: valid ones, and the messages for others.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "import/checkpoint/architectures.h"
#include "import/checkpoint/config.h"
#include "import/checkpoint/files/gguf.h"
#include "import/checkpoint/files/safetensors.h"
#include "import/checkpoint/gguf_config.h"
#include "import/checkpoint/rope.h"

namespace lathe::checkpoint {
namespace {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string safetensors(const std::string& header, size_t data) {
  return bytes_of(uint64_t{header.size()}) + header + std::string(data, '\1');
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirPlaces) {
  const std::string file = safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}} )",
      16);
  const std::vector<SafetensorsTensor> tensors = read_safetensors(file);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].type, "BF16");
  EXPECT_EQ(tensors[1].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors[1].offset, file.size() - 12);
}

TEST(Safetensors, ReportsWrongFiles) {
  const auto message = [](const std::string& file) {
    return message_of([&] { static_cast<void>(read_safetensors(file)); });
  };
  EXPECT_EQ(message("1234567"), "the file has 7 bytes, expected at least 8");
  EXPECT_EQ(message(bytes_of(uint64_t{1} << 40)),
            "the header has 1099511627776 bytes, expected at most 0");
  EXPECT_EQ(message(safetensors("[]", 0)), "the header begins with '[', expected '{'");
  EXPECT_EQ(
      message(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)),
      "tensor 'a' begins at byte 4 of the data, expected 0: tensors have no gaps or overlaps");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 2)),
            "tensor 'a' ends at byte 4 of the data, but the file has 2: it is incomplete");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
            "tensor 'a' has 4 bytes, expected 8 for shape [2] of F32");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"X9","shape":[2],"data_offsets":[0,4]}})", 4)),
            "tensor 'a' has the unknown type 'X9'");
  EXPECT_EQ(
      message(safetensors(
          R"({"a":{"dtype":"F32","shape":[9007199254740992,9007199254740992],"data_offsets":[0,4]}})",
          4)),
      "tensor 'a' has shape [9007199254740992, 9007199254740992] of F32, more than the file's 98 "
      "bytes");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4)),
            "tensor 'a' has no valid dtype, shape and data_offsets in the header");
  EXPECT_EQ(message(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4)),
            "the header is not valid JSON at byte 54");
}

std::string gguf_text(std::string_view text) {
  return bytes_of(uint64_t{text.size()}) + std::string(text);
}

// A file with one F32 tensor of these dims, innermost first, at an offset.
std::string gguf(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t data) {
  std::string file = "GGUF" + bytes_of(uint32_t{3}) + bytes_of(uint64_t{1}) +
                     bytes_of(uint64_t{1}) + gguf_text("general.architecture") +
                     bytes_of(uint32_t{8}) + gguf_text("llama") + gguf_text("w") +
                     bytes_of(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) file += bytes_of(dim);
  file += bytes_of(type) + bytes_of(offset);
  file.resize((file.size() + 31) / 32 * 32);
  return file + std::string(data, '\1');
}

TEST(Gguf, ReadsKeysAndTensors) {
  const std::string bytes = gguf({3, 2}, 0, 0, 24);
  const GgufFile file(bytes);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.text("general.name"), std::nullopt);
  const std::vector<GgufTensor> tensors = file.read_tensors();
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors[0].type->name, "F32");
  EXPECT_EQ(tensors[0].bytes.size(), 24U);
}

TEST(Gguf, ReportsWrongFiles) {
  const auto message = [](const std::string& bytes) {
    return message_of([&] { static_cast<void>(GgufFile(bytes).read_tensors()); });
  };
  EXPECT_EQ(message("GGML"), "the file begins with 'GGML', expected 'GGUF'");
  EXPECT_EQ(message("GGUF" + bytes_of(uint32_t{1})), "GGUF version 1, expected 2 or 3");
  EXPECT_EQ(message("GGUF" + bytes_of(uint32_t{0x03000000})),
            "the file is big-endian (version 0x03000000): convert it to little-endian");
  EXPECT_NE(message(gguf({3, 2}, 0, 0, 23)).find("it is incomplete"), std::string::npos);
  EXPECT_EQ(message(gguf({3, 2}, 0, 1, 64)),
            "tensor 'w' is at offset 1, expected a multiple of 32");
  EXPECT_EQ(message(gguf({3, 2}, 99, 0, 24)),
            "tensor 'w' has the unknown type 99; a newer version of GGUF may define it");
  EXPECT_EQ(message(gguf({3, 2}, 12, 0, 24)),
            "tensor 'w' has rows of 3 elements, expected a multiple of 256 for type Q4_K");
  EXPECT_EQ(message(gguf({1, 1, 1, 1, 1}, 0, 0, 4)), "tensor 'w' has rank 5, expected at most 4");
  EXPECT_NE(
      message(gguf({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0, 4)).find("more than the file"),
      std::string::npos);
}

// The RoPE of a Llama with these keys: numbers, and `scaling` if it has a value.
Config gguf_rope(std::string_view scaling, const std::map<std::string, float>& numbers) {
  std::string keys = gguf_text("general.architecture") + bytes_of(uint32_t{8}) + gguf_text("llama");
  if (!scaling.empty()) {
    keys += gguf_text("llama.rope.scaling.type") + bytes_of(uint32_t{8}) + gguf_text(scaling);
  }
  std::map<std::string, float> all = {
      {"embedding_length", 64}, {"attention.head_count", 4}, {"vocab_size", 8}};
  all.insert(numbers.begin(), numbers.end());
  for (const auto& [name, value] : all) {
    keys += gguf_text("llama." + name) + bytes_of(uint32_t{6}) + bytes_of(value);
  }
  const std::string file = "GGUF" + bytes_of(uint32_t{3}) + bytes_of(uint64_t{0}) +
                           bytes_of(uint64_t{1 + (scaling.empty() ? 0 : 1) + all.size()}) + keys;
  return read_gguf_config(GgufFile(file)).object("rope_parameters");
}

// A file of these tokens and their types, of which "tokenizer.ggml.eos_token_id" names the first.
std::vector<int64_t> gguf_ends(const std::vector<std::pair<std::string_view, int32_t>>& tokens) {
  std::string texts, types;
  for (const auto& [token, type] : tokens) {
    texts += gguf_text(token);
    types += bytes_of(type);
  }
  const auto list = [&](std::string_view key, uint32_t type, const std::string& values) {
    return gguf_text(key) + bytes_of(uint32_t{9}) + bytes_of(type) +
           bytes_of(uint64_t{tokens.size()}) + values;
  };
  const auto number = [](std::string_view key, uint32_t value) {
    return gguf_text(key) + bytes_of(uint32_t{4}) + bytes_of(value);
  };
  const std::string file =
      "GGUF" + bytes_of(uint32_t{3}) + bytes_of(uint64_t{0}) + bytes_of(uint64_t{6}) +
      gguf_text("general.architecture") + bytes_of(uint32_t{8}) + gguf_text("llama") +
      number("llama.embedding_length", 64) + number("llama.attention.head_count", 4) +
      list("tokenizer.ggml.tokens", 8, texts) + list("tokenizer.ggml.token_type", 5, types) +
      number("tokenizer.ggml.eos_token_id", 0);
  return read_gguf_config(GgufFile(file)).integers("eos_token_id");
}

TEST(Gguf, ControlTokensThatEndTurnsAreEndTokens) {
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(gguf_ends({{"<eos>", 3}, {"<start_of_turn>", 3}, {"<end_of_turn>", 4}, {"<bos>", 3}}),
            (Ids{0, 2}));
  EXPECT_EQ(gguf_ends({{"<|endoftext|>", 3}, {"<|end|>", 3}, {"<|im_end|>", 1}}), (Ids{0, 1}));
  EXPECT_EQ(gguf_ends({{"<|return|>", 3}, {"<|end|>", 3}, {"<|call|>", 3}}), (Ids{0, 2}));
}

TEST(Gguf, ScalesRopeUnlessTheTypeIsNone) {
  EXPECT_EQ(gguf_rope("none", {{"rope.scaling.factor", 4}}).text("rope_type"), "default");
  EXPECT_EQ(gguf_rope("", {{"rope.scaling.factor", 4}}).text("rope_type"), "linear");
  EXPECT_EQ(gguf_rope("", {{"rope.scale_linear", 2}}).number("factor", 0), 2);
  EXPECT_EQ(gguf_rope("linear", {{"rope.scaling.factor", 0}}).number("factor", 0), 1);
  EXPECT_EQ(gguf_rope("linear", {}).number("factor", 0), 1);
}

TEST(Config, ConvertsTransformers4To5) {
  const Config config = read_hf_config(
      R"({"model_type":"llama","rope_theta":500000.0,"rope_scaling":{"type":"linear","factor":2}})",
      "config.json");
  const Config rope = config.object("rope_parameters");
  EXPECT_EQ(rope.text("rope_type"), "linear");
  EXPECT_EQ(rope.number("rope_theta", 0), 500000);
  EXPECT_EQ(rope.number("factor", 0), 2);
}

TEST(Config, HasTheDefaultsOfItsArchitecture) {
  const auto read = [](const char* json) { return read_hf_config(json, "c"); };
  const Config mixtral = read(R"({"model_type":"mixtral","num_experts":4,"hidden_size":64})");
  EXPECT_EQ(mixtral.object("rope_parameters").number("rope_theta", 0), 1e6);
  EXPECT_EQ(mixtral.number("rms_norm_eps", 0), 1e-5);
  EXPECT_EQ(mixtral.integer("num_local_experts"), 4);
  EXPECT_EQ(mixtral.integer("hidden_size"), 64);
  EXPECT_EQ(read(R"({"model_type":"mistral"})").integer("sliding_window"), 4096);
  EXPECT_FALSE(read(R"({"model_type":"mistral","sliding_window":null})").has("sliding_window"));
  EXPECT_EQ(read(R"({"model_type":"qwen2"})").integer("max_window_layers"), 28);
  const Config gpt_oss = read(R"({"model_type":"gpt_oss","rope_theta":null})");
  EXPECT_EQ(gpt_oss.object("rope_parameters").text("rope_type"), "yarn");
  EXPECT_EQ(gpt_oss.object("rope_parameters").number("rope_theta", 0), 150000);
  const Config phi3 = read(
      R"({"model_type":"phi3","rope_scaling":{"type":"su","original_max_position_embeddings":8}})");
  EXPECT_EQ(phi3.object("rope_parameters").text("rope_type"), "longrope");
  EXPECT_EQ(phi3.object("rope_parameters").integer("original_max_position_embeddings"), 4096);
}

TEST(Config, ScalesRopeOfFullLayersOfGemma3) {
  const auto rope = [](const char* values) {
    return read_hf_config(fmt::format(R"({{"model_type":"gemma3_text",{}}})", values), "c")
        .object("rope_parameters");
  };
  const Config scaled = rope(R"("rope_scaling":{"factor":8,"rope_type":"linear"})");
  EXPECT_EQ(scaled.object("full_attention").number("rope_theta", 0), 1e6);
  EXPECT_EQ(scaled.object("full_attention").text("rope_type"), "linear");
  EXPECT_EQ(scaled.object("full_attention").number("factor", 0), 8);
  EXPECT_EQ(scaled.object("sliding_attention").number("rope_theta", 0), 10000);
  EXPECT_EQ(scaled.object("sliding_attention").text("rope_type"), "default");
  const Config nested = rope(R"("rope_parameters":{"full_attention":{"rope_type":"linear"},)"
                             R"("sliding_attention":{"rope_theta":5}})");
  EXPECT_EQ(nested.object("full_attention").number("rope_theta", 0), 1e6);
  EXPECT_EQ(nested.object("full_attention").text("rope_type"), "linear");
  EXPECT_EQ(nested.object("sliding_attention").number("rope_theta", 0), 5);
  const Config own = rope(R"("rope_theta":7,"rope_local_base_freq":8)");
  EXPECT_EQ(own.object("full_attention").number("rope_theta", 0), 7);
  EXPECT_EQ(own.object("sliding_attention").number("rope_theta", 0), 8);
}

TEST(Config, PrefersRopeScalingToRopeParameters) {
  const Config rope =
      read_hf_config(R"({"model_type":"llama","rope_scaling":{"rope_type":"linear","factor":2},)"
                     R"("rope_parameters":{"rope_type":"default","rope_theta":5}})",
                     "c")
          .object("rope_parameters");
  EXPECT_EQ(rope.text("rope_type"), "linear");
  EXPECT_FALSE(rope.has("rope_theta"));
}

TEST(Config, ReadsTheTextPartOfAMultimodalModel) {
  const Config config = read_hf_config(
      R"({"model_type":"a","tie_word_embeddings":true,"text_config":{"model_type":"b"}})", "c");
  EXPECT_EQ(config.text("model_type"), "b");
  EXPECT_TRUE(config.flag("tie_word_embeddings", false));
}

// What the whole model states decides, but for Qwen's: there, either may.
TEST(Config, TiesTheHeadOfAMultimodalModelAsItsClassDoes) {
  const auto tied = [](std::string_view type, std::string_view whole, std::string_view text) {
    const std::string json = fmt::format(
        R"({{"model_type":"{}"{},"text_config":{{"model_type":"b"{}}}}})", type, whole, text);
    return read_hf_config(json, "c").flag("tie_word_embeddings", false);
  };
  constexpr std::string_view kTrue = R"(,"tie_word_embeddings":true)";
  constexpr std::string_view kFalse = R"(,"tie_word_embeddings":false)";
  EXPECT_TRUE(tied("gemma3", "", kFalse));
  EXPECT_FALSE(tied("gemma3", kFalse, kTrue));
  EXPECT_TRUE(tied("qwen2_5_vl", kFalse, kTrue));
  EXPECT_FALSE(tied("qwen3_vl", kFalse, kTrue));
  EXPECT_TRUE(tied("qwen3_vl", "", kTrue));
  EXPECT_TRUE(tied("qwen2_5_vl", kTrue, ""));
}

TEST(Config, ReportsWrongValues) {
  const Config config(nlohmann::json::parse(R"({"a":-1,"b":"x","c":{"d":[1,"x"]}})"));
  EXPECT_EQ(message_of([&] { static_cast<void>(config.integer("a")); }),
            "'a' is -1, expected an integer from 0 to 2147483647");
  EXPECT_EQ(message_of([&] { static_cast<void>(config.integer("e")); }), "'e' is missing");
  EXPECT_EQ(message_of([&] { static_cast<void>(config.flag("b", true)); }),
            "'b' is \"x\", expected true or false");
  EXPECT_EQ(message_of([&] { static_cast<void>(config.object("c").numbers("d")); }),
            "'c.d' is [1,\"x\"], expected a list of numbers");
}

TEST(Architectures, AreFoundByTheirNames) {
  std::set<std::string_view> types;
  for (const Architecture& one : architectures()) {
    EXPECT_TRUE(types.insert(one.type).second) << one.type;
    EXPECT_EQ(&find_architecture(one.type), &one);
    EXPECT_NE(one.adapt, nullptr) << one.type;
    if (one.gguf.empty()) continue;
    const Architecture* found = find_gguf_architecture(one.gguf);
    ASSERT_NE(found, nullptr) << one.gguf;
    EXPECT_EQ(found->gguf, one.gguf);
  }
  EXPECT_GE(types.size(), 28U);
}

TEST(Rope, RefusesValuesThatItDividesBy) {
  const auto message = [](const char* type, const char* values) {
    const std::string json = fmt::format(R"({{"rope_type":"{}",{}}})", type, values);
    return message_of([&] { make_rope(Config(nlohmann::json::parse(json)), 16, 128, 128); });
  };
  EXPECT_EQ(message("linear", R"("factor":0)"), "'factor' is 0, expected a number above 0");
  EXPECT_EQ(message("yarn", R"("factor":-4)"), "'factor' is -4, expected a number above 0");
  EXPECT_EQ(message("yarn", R"("factor":4,"original_max_position_embeddings":0)"),
            "'original_max_position_embeddings' is 0, expected a number above 0");
  EXPECT_EQ(message("llama3", R"("factor":8,"low_freq_factor":4,"high_freq_factor":4)"),
            "'high_freq_factor' is 4, expected above 'low_freq_factor', 4");
  EXPECT_EQ(message("llama3", R"("factor":8)"), "no error");
}

TEST(Rope, RefusesUnknownKindsAndSizes) {
  const auto message = [](const char* json) {
    return message_of([&] { make_rope(Config(nlohmann::json::parse(json)), 16, 128, 128); });
  };
  EXPECT_NE(message(R"({"rope_type":"spiral"})").find("'rope_type' is 'spiral'"),
            std::string::npos);
  EXPECT_EQ(message(R"({"partial_rotary_factor":2})"),
            "'partial_rotary_factor' is 2, expected above 0 and at most 1");
  EXPECT_EQ(message(R"({"rope_theta":0})"), "'rope_theta' is 0, expected a number above 0");
}

}  // namespace
}  // namespace lathe::checkpoint
