// SPDX-License-Identifier: MIT
// One model exported in five forms: in standard operators (f32, 16 bits, dynamically quantised) and
// in contrib operators (f32, 4 bits). Expected tokens come from ONNX Runtime.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_tensors.h"

namespace lathe::llm {
namespace {

const std::string kFolder = "../shared/models/llm/stories260k-onnx";

std::vector<Token> finish(Generator& generator) {
  while (generator.generate_next_token()) {
  }
  return generator.outputs(0)[0].tokens;
}

class FormsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "missing " << kFolder;
    std::ifstream(kFolder + "/expected_greedy.json") >> expected_;
  }
  static std::shared_ptr<const Decoder> open(const std::string& file) {
    const nlohmann::json overlay = {
        {"model", {{"eos_token_id", 2}, {"decoder", {{"filename", file}}}}}};
    return std::make_shared<const Decoder>(kFolder, DecoderOptions{{}, overlay.dump()});
  }
  std::vector<Token> tokens_of(const std::string& file) const {
    return expected_.at(file).at("greedy_ids").get<std::vector<Token>>();
  }

  nlohmann::json expected_;
};

TEST_F(FormsTest, every_form_generates_its_recorded_tokens) {
  ASSERT_EQ(expected_.size(), 5U);
  for (const auto& [file, form] : expected_.items()) {
    const std::vector<Token> tokens = tokens_of(file);
    Generator generator(open(file));
    search::SearchOptions options;
    options.max_length = static_cast<int64_t>(tokens.size());
    generator.add(form.at("prompt_ids").get<std::vector<Token>>(), options);
    EXPECT_EQ(finish(generator), tokens) << file;
  }
}

TEST_F(FormsTest, token_wise_forms_are_packed_for_all_operators) {
  const std::vector<Token> prompt = tokens_of("model.onnx");
  for (const auto& [file, form] : expected_.items()) {
    if (file == "model_int8_dynamic.onnx") continue;
    const auto decoder = open(file);
    ASSERT_TRUE(decoder->packed()) << file << ": " << decoder->notes().not_packed_reason;
    for (const StateNote& state : decoder->notes().states) {
      EXPECT_EQ(state.kind, StateKind::append);
      EXPECT_TRUE(state.paged);
    }
    std::vector<float> whole;
    for (const size_t part : {prompt.size(), size_t{1}, size_t{7}, size_t{16}}) {
      Sequence sequence = decoder->new_sequence();
      std::vector<float> all;
      for (size_t at = 0; at < prompt.size(); at += part) {
        const StepRequest request{&sequence,
                                  std::span(prompt).subspan(at, std::min(part, prompt.size() - at)),
                                  LogitPositions::all()};
        const Tensor logits = decoder->step({&request, 1});
        all.insert(all.end(), logits.as<float>(), logits.as<float>() + logits.count());
      }
      if (whole.empty()) whole = all;
      EXPECT_EQ(std::memcmp(all.data(), whole.data(), all.size() * sizeof(float)), 0)
          << file << " in parts of " << part;
    }
  }
}

TEST_F(FormsTest, a_dynamically_quantised_form_runs_its_prompt_unsplit) {
  const auto decoder = open("model_int8_dynamic.onnx");
  EXPECT_FALSE(decoder->packed());
  EXPECT_TRUE(decoder->notes().not_packed_reason.starts_with("dynamic_quantize_linear "))
      << decoder->notes().not_packed_reason;
  for (const StateNote& state : decoder->notes().states) {
    EXPECT_EQ(state.kind, StateKind::append);
    EXPECT_FALSE(state.paged);
  }
  EXPECT_EQ(decoder->notes().states.size(), 10U);
  std::vector<Token> prompt = tokens_of("model_int8_dynamic.onnx");
  search::SearchOptions options;
  options.max_new_tokens = 1;
  options.chunk_size = 7;
  Generator cut(decoder);
  cut.add(prompt, options);
  finish(cut);
  Sequence sequence = decoder->new_sequence();
  const StepRequest request{&sequence, prompt};
  const Tensor logits = decoder->step({&request, 1});
  EXPECT_TRUE(std::ranges::equal(cut.logits(0), logits.elements<float>()));
}

TEST_F(FormsTest, unpacked_sequences_rewind_to_where_a_run_began) {
  const auto decoder = open("model_int8_dynamic.onnx");
  const std::vector<Token> prompt = {1, 403, 407, 261, 378, 432};
  search::SearchOptions options;
  options.max_new_tokens = 12;
  Generator generator(decoder);
  generator.add(prompt, options);
  const std::vector<Token> tokens = finish(generator);
  for (const size_t length : {tokens.size() - 1, size_t{9}, prompt.size()}) {
    generator.rewind_to(0, length);
    EXPECT_EQ(finish(generator), tokens) << "rewound to " << length;
  }
  generator.rewind_to(0, 3);
  Generator fresh(decoder);
  fresh.add(std::span(prompt).first(3), options);
  EXPECT_EQ(finish(generator), finish(fresh));
}

TEST_F(FormsTest, unpacked_sequences_fork_and_take_a_second_turn) {
  const auto decoder = open("model_int8_dynamic.onnx");
  const std::vector<Token> prompt = {1, 403, 407, 261};
  search::SearchOptions options;
  options.max_new_tokens = 8;
  options.num_beams = 3;
  options.num_return_sequences = 3;
  Generator beams(decoder);
  beams.add(prompt, options);
  finish(beams);
  const std::vector<Output> outputs = beams.outputs(0);
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_NE(outputs[0].tokens, outputs[1].tokens);
  // A score is the sum of log-probabilities from a separate run of the beam.
  for (const Output& output : outputs) {
    Sequence sequence = decoder->new_sequence();
    std::span<const Token> rest = output.tokens;
    double sum = 0;
    for (size_t at = prompt.size(); at < rest.size(); ++at) {
      const auto length = static_cast<size_t>(sequence.length());
      const StepRequest request{&sequence, rest.subspan(length, at - length)};
      const Tensor logits = decoder->step({&request, 1});
      double all = 0;
      for (const float logit : logits.elements<float>()) all += std::exp(double{logit});
      sum += logits.elements<float>()[static_cast<size_t>(rest[at])] - std::log(all);
    }
    const auto counted = static_cast<double>(rest.size());
    EXPECT_NEAR(output.score, sum / counted, 1e-4);
  }
  search::SearchOptions one;
  one.max_new_tokens = 1;
  Generator turns(decoder);
  turns.add(prompt, one);
  finish(turns);
  turns.append_tokens(0, std::vector<Token>{378, 432});
  turns.generate_next_token();
  // The sampled token runs in the next chat turn.
  EXPECT_EQ(turns.tokens_run(), 4 + 3);
}

// Keys and values in one tensor, a packed projection, masks by attribute.
TEST(CombinedCaches, a_tiny_gpt2_generates_its_recorded_sequences) {
  const std::string folder = "../shared/models/genai/hf-internal-testing/tiny-random-gpt2-fp32";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const auto decoder = std::make_shared<const Decoder>(folder);
  EXPECT_TRUE(decoder->packed()) << decoder->notes().not_packed_reason;
  EXPECT_EQ(decoder->notes().states.size(), 10U);
  search::SearchOptions options;
  options.max_length = 10;
  Generator greedy(decoder);
  greedy.add(std::vector<Token>{0, 0, 0, 52}, options);
  greedy.add(std::vector<Token>{0, 0, 195, 731}, options);
  finish(greedy);
  const std::vector<Token> first = {0, 0, 0, 52, 204, 204, 204, 204, 204, 204};
  const std::vector<Token> second = {0, 0, 195, 731, 731, 114, 114, 114, 114, 114};
  EXPECT_EQ(greedy.outputs(0)[0].tokens, first);
  EXPECT_EQ(greedy.outputs(1)[0].tokens, second);
  for (const size_t length : {size_t{9}, size_t{5}, size_t{4}}) {
    greedy.rewind_to(0, length);
    EXPECT_EQ(finish(greedy), first) << "rewound to " << length;
  }
  greedy.rewind_to(0, 0);
  greedy.append_tokens(0, std::vector<Token>{0, 0, 195, 731});
  EXPECT_EQ(finish(greedy), second);

  options.max_length = 20;
  options.num_beams = 4;
  Generator beams(decoder);
  const std::vector<std::vector<Token>> prompts = {
      {0, 0, 0, 0, 0, 52, 195, 731, 321, 301, 734, 620},
      {41, 554, 74, 622, 206, 222, 75, 223, 221, 198, 224, 572},
      {0, 0, 0, 52, 328, 219, 328, 206, 288, 227, 896, 328}};
  const std::vector<std::vector<Token>> continuations = {{131, 131, 131, 181, 638, 638, 638, 638},
                                                         {292, 292, 292, 292, 292, 292, 292, 292},
                                                         {328, 669, 669, 669, 669, 669, 669, 669}};
  for (const std::vector<Token>& prompt : prompts) beams.add(prompt, options);
  finish(beams);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Output best = beams.outputs(i)[0];
    EXPECT_TRUE(std::ranges::equal(best.generated(), continuations[i])) << "prompt " << i;
  }
}

TEST(CombinedCaches, export_and_import_keep_the_files_layout) {
  const std::string folder = "../shared/models/genai/hf-internal-testing/tiny-random-gpt2-fp32";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const Decoder decoder(folder);
  const std::vector<Token> prompt = {0, 0, 195, 731, 731};
  Sequence sequence = decoder.new_sequence();
  const StepRequest request{&sequence, prompt};
  decoder.step({&request, 1});
  const std::vector<StateTensor> tensors = export_states(sequence);
  ASSERT_EQ(tensors.size(), 5U);
  EXPECT_EQ(tensors[0].past, "past_0");
  EXPECT_EQ(tensors[0].present, "present_0");
  EXPECT_EQ(tensors[0].tensor.dims(), (Dims{2, 1, 4, 5, 8}));
  Sequence other = import_states(sequence.shared_layout(), 5, tensors);
  const std::vector<Token> next = {114};
  const StepRequest requests[] = {{&sequence, next}, {&other, next}};
  const Tensor logits = decoder.step(requests);
  const auto width = static_cast<size_t>(decoder.vocabulary());
  EXPECT_EQ(std::memcmp(logits.as<float>(), logits.as<float>() + width, width * sizeof(float)), 0);
}

// Ids of 32 bits, a mask of 64, KV caches and logits of 16.
TEST(SmallIds, a_half_precision_decoder_computes_the_same_bits_in_parts) {
  const std::string folder = "../shared/models/genai/hf-internal-testing/tiny-qwen35-cuda";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const Decoder decoder(folder);
  EXPECT_TRUE(decoder.packed()) << decoder.notes().not_packed_reason;
  EXPECT_EQ(decoder.layout().states().front().element, ElementType::f16);
  std::vector<Token> prompt(40);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<Token>(i * 37 % 1000);
  Sequence whole = decoder.new_sequence();
  const StepRequest request{&whole, prompt};
  const Tensor expected = decoder.step({&request, 1});
  EXPECT_EQ(expected.dims(), (Dims{1, 1000}));
  Sequence parts = decoder.new_sequence();
  for (const size_t begin : {0, 13, 39}) {
    const size_t count = begin == 0 ? 13 : begin == 13 ? 26 : 1;
    const StepRequest part{&parts, std::span(prompt).subspan(begin, count)};
    const Tensor logits = decoder.step({&part, 1});
    if (begin == 39) {
      EXPECT_TRUE(std::ranges::equal(logits.elements<float>(), expected.elements<float>()));
    }
  }
}

// Outputs without nodes.
TEST(SignatureOnly, a_model_without_nodes_opens_and_steps) {
  const std::string folder = "../shared/models/genai/engine/dummy-decoder";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const Decoder decoder(folder);
  EXPECT_FALSE(decoder.packed());
  Sequence sequence = decoder.new_sequence();
  const std::vector<Token> prompt = {5, 9, 13};
  const StepRequest request{&sequence, prompt, LogitPositions::all()};
  EXPECT_EQ(decoder.step({&request, 1}).dims(), (Dims{3, 32}));
  Sequence fork = sequence;
  const StepRequest requests[] = {{&sequence, std::span(prompt).first(1)}, {&fork, prompt}};
  EXPECT_EQ(decoder.step(requests).dims(), (Dims{2, 32}));
  EXPECT_EQ(sequence.length(), 4);
  EXPECT_EQ(fork.tensor(0).dims(), (Dims{1, 2, 6, 4}));
}

// Keys depend on embeddings alone, and convolution states pass through: no token depends on
// another.
TEST(SignatureOnly, states_without_attention_are_kept) {
  const std::string folder = "../shared/models/genai/hf-internal-testing/tiny-random-lfm2-fp32";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const Decoder decoder(folder);
  EXPECT_FALSE(decoder.packed());
  const DecoderNotes notes = decoder.notes();
  EXPECT_EQ(std::ranges::count(notes.states, StateKind::append, &StateNote::kind), 4);
  EXPECT_EQ(std::ranges::count(notes.states, StateKind::carry, &StateNote::kind), 2);
  Sequence sequence = decoder.new_sequence();
  const std::vector<Token> prompt = {5, 9, 13};
  const StepRequest request{&sequence, prompt};
  decoder.step({&request, 1});
  decoder.step({&request, 1});
  for (const StateTensor& state : export_states(sequence)) {
    const Dims expected = state.past.starts_with("past_conv") ? Dims{1, 32, 4} : Dims{1, 4, 6, 8};
    EXPECT_EQ(state.tensor.dims(), expected) << state.past;
  }
}

}  // namespace
}  // namespace lathe::llm
