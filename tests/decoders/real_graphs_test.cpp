// SPDX-License-Identifier: MIT
// The model folders of ONNX Runtime GenAI's tests: each is listed here with its result.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "import/load_model.h"
#include "llm/model/generator.h"
#include "targets/compile.h"

namespace lathe::llm {
namespace {

const std::string kRoot = "../shared/models/genai/";

struct Folder {
  std::string_view path;
  std::string_view refusal;  // empty: it opens and steps
};

constexpr std::string_view kNoFile = "which is not there";
constexpr auto kFolders = std::to_array<Folder>({
    {"engine/dummy-decoder", ""},
    {"engine/synthetic-paged", ""},
    {"gemma4", kNoFile},
    {"hf-internal-testing/tiny-qwen35-cuda", ""},
    {"hf-internal-testing/tiny-random-gpt2-fp16-cuda", ""},
    {"hf-internal-testing/tiny-random-gpt2-fp32", ""},
    {"hf-internal-testing/tiny-random-gpt2-fp32-cuda", kNoFile},
    {"hf-internal-testing/tiny-random-lfm2-fp32", ""},
    {"marian-batch", ""},
    {"marian-batch-beams", ""},
    {"marian-batch-values", ""},
    {"multimodal-decoder-no-input-ids", ""},
    {"multimodal-decoder-with-input-ids", ""},
    {"phi3-v", kNoFile},
    {"pipeline-model", kNoFile},
    {"qwen2-5-vl", kNoFile},
    {"qwen3-5", ""},
    {"qwen3-vl", kNoFile},
    {"whisper", kNoFile},
});

Tensor integers(ElementType type, const std::vector<int64_t>& values) {
  return integer_tensor(type, {1, std::ssize(values)}, values);
}

// Encoder inputs of translation models: ids and mask.
NamedTensors source(const std::vector<int64_t>& ids, const std::vector<int64_t>& mask) {
  return {{"input_ids", integers(ElementType::i64, ids)},
          {"attention_mask", integers(ElementType::i32, mask)}};
}

class RealGraphs : public testing::TestWithParam<Folder> {};

TEST_P(RealGraphs, opens_and_steps_or_has_a_reason) {
  const std::string folder = kRoot + std::string(GetParam().path);
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  if (!GetParam().refusal.empty()) {
    try {
      const Decoder decoder(folder);
      FAIL() << "expected '" << GetParam().refusal << "'";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(GetParam().refusal), std::string::npos) << error.message();
    }
    return;
  }
  const Decoder decoder(folder);
  Sequence sequence = decoder.new_sequence();
  if (!decoder.model_inputs().empty()) {
    const int64_t width = GetParam().path == "marian-batch" ? 2 : 3;
    const std::vector<int64_t> ones(static_cast<size_t>(width), 1);
    decoder.encode(sequence, source(ones, ones));
  }
  for (const Token token : {5, 9, 3}) {
    const StepRequest request{&sequence, {&token, 1}};
    EXPECT_EQ(decoder.step({&request, 1}).dims(), (Dims{1, decoder.vocabulary()}));
  }
  EXPECT_EQ(sequence.length(), 3);
}

INSTANTIATE_TEST_SUITE_P(folders, RealGraphs, testing::ValuesIn(kFolders),
                         [](const testing::TestParamInfo<Folder>& one) {
                           std::string name(one.param.path);
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

TEST(RealGraphFiles, every_folder_is_listed_here) {
  if (!std::filesystem::exists(kRoot)) GTEST_SKIP() << "missing " << kRoot;
  std::set<std::string> found, named;
  for (const Folder& folder : kFolders) named.emplace(folder.path);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot)) {
    if (entry.path().filename() != "genai_config.json") continue;
    found.insert(std::filesystem::relative(entry.path().parent_path(), kRoot).string());
  }
  EXPECT_EQ(found, named);
}

TEST(RealGraphFiles, every_graph_is_read_and_compiled) {
  if (!std::filesystem::exists(kRoot)) GTEST_SKIP() << "missing " << kRoot;
  int graphs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot)) {
    if (entry.path().extension() != ".onnx") continue;
    ++graphs;
    try {
      compile(load_model(entry.path().string()), {});
    } catch (const Error& error) {
      ADD_FAILURE() << entry.path() << ": " << error.message();
    }
  }
  EXPECT_EQ(graphs, 30);
}

// One token of each sequence, [2] or [4] per run, with states that are replaced.
class Marian : public testing::Test {
 protected:
  static std::shared_ptr<const Decoder> open(const std::string& name) {
    const std::string folder = kRoot + name;
    if (!std::filesystem::exists(folder)) return nullptr;
    return std::make_shared<const Decoder>(folder);
  }
  static void add(Generator& generator, const NamedTensors& inputs,
                  const search::SearchOptions& options) {
    const size_t prompt = generator.add({}, options);
    for (const auto& [name, tensor] : inputs) generator.set_model_input(prompt, name, tensor);
    generator.append_tokens(prompt, std::vector<Token>{32000});
  }
};

// The next token is the number of unmasked source tokens.
TEST_F(Marian, each_sequence_uses_its_own_mask) {
  const auto decoder = open("marian-batch-values");
  if (decoder == nullptr) GTEST_SKIP() << "missing " << kRoot;
  EXPECT_FALSE(decoder->packed());
  EXPECT_EQ(decoder->notes().not_packed_reason,
            "the input 'input_ids' is i64[2]: one token per sequence");
  const DecoderNotes notes = decoder->notes();
  EXPECT_EQ(std::ranges::count(notes.states, StateKind::carry, &StateNote::kind), 1);
  EXPECT_EQ(std::ranges::count(notes.states, StateKind::cross, &StateNote::kind), 2);
  search::SearchOptions options;
  options.max_new_tokens = 2;
  Generator generator(decoder);
  add(generator, source({5, 0, 32000}, {1, 1, 0}), options);
  add(generator, source({7, 8, 0}, {1, 1, 1}), options);
  add(generator, source({7, 32000, 32000}, {1, 0, 0}), options);
  while (generator.generate_next_token()) {
  }
  for (const auto& [prompt, token] : {std::pair{0, 2}, {1, 3}, {2, 1}}) {
    const std::vector<Token> expected(2, token);
    const Output output = generator.outputs(static_cast<size_t>(prompt))[0];
    EXPECT_TRUE(std::ranges::equal(output.generated(), expected)) << "prompt " << prompt;
  }
}

// A state holds its sequence's index in the run; the next token is that plus one. The first run has
// one sequence, at index 1: both of its beams continue from there.
TEST_F(Marian, states_follow_their_beams) {
  const auto decoder = open("marian-batch-beams");
  if (decoder == nullptr) GTEST_SKIP() << "missing " << kRoot;
  search::SearchOptions options;
  options.max_new_tokens = 2;
  options.num_beams = options.num_return_sequences = 2;
  Generator generator(decoder);
  add(generator, source({5, 6, 0}, {1, 1, 1}), options);
  while (generator.generate_next_token()) {
  }
  const std::vector<Output> beams = generator.outputs(0);
  ASSERT_EQ(beams.size(), 2U);
  for (const Output& beam : beams) EXPECT_EQ(beam.tokens.back(), 2);
  EXPECT_NE(beams[0].tokens, beams[1].tokens);
}

TEST_F(Marian, a_sequence_accepts_encoder_inputs_before_its_tokens) {
  const auto decoder = open("marian-batch");
  if (decoder == nullptr) GTEST_SKIP() << "missing " << kRoot;
  EXPECT_EQ(decoder->model_inputs(), (std::vector<std::string>{"input_ids", "attention_mask"}));
  Sequence sequence = decoder->new_sequence();
  const Token token = 32000;
  const StepRequest request{&sequence, {&token, 1}};
  EXPECT_THROW(decoder->step({&request, 1}), Error);
  decoder->encode(sequence, source({5, 0}, {1, 1}));
  decoder->step({&request, 1});
  EXPECT_EQ(sequence.tensor(0).dims(), (Dims{3, 1, 512}));
  EXPECT_THROW(decoder->encode(sequence, source({5, 0}, {1, 1})), Error);
}

}  // namespace
}  // namespace lathe::llm
