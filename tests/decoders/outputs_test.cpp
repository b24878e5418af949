// SPDX-License-Identifier: MIT
// Outputs of a model beside its logits: independent of chunks and of other sequences in the step.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_tensors.h"
#include "tests/decoders/run_script.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.dims(), b.dims()) &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.byte_size())) == 0;
}

class OutputsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (find_target(GetParam()) == nullptr) GTEST_SKIP() << "target is unavailable";
    const std::filesystem::path folder = unpacked_zoo() / "outputs";
    std::filesystem::create_directories(folder);
    if (!run_script("make_decoder.py", {folder.string(), "-1", "outputs"})) {
      GTEST_SKIP() << "make_decoder.py requires build/venv";
    }
    DecoderOptions options;
    options.target = find_target(GetParam());
    decoder_ = std::make_shared<const Decoder>(folder.string(), options);
    for (int i = 0; i < 23; ++i) prompt_.push_back((i * 7 + i / 3) % 30);
  }

  search::SearchOptions options(int64_t chunk) const {
    search::SearchOptions options;
    options.chunk_size = chunk;
    return options;
  }

  std::shared_ptr<const Decoder> decoder_;
  std::vector<Token> prompt_;
};

TEST_P(OutputsTest, have_all_tokens_where_logits_have_one) {
  ASSERT_TRUE(decoder_->packed());
  ASSERT_EQ(decoder_->outputs().size(), 2U);
  Sequence sequence = decoder_->new_sequence();
  NamedTensors outputs;
  const StepRequest all{&sequence, prompt_, LogitPositions::all(), &outputs};
  const Tensor logits = decoder_->step({&all, 1});
  const Tensor& doubled = outputs.at("doubled");
  ASSERT_EQ(doubled.dims(), Dims({1, 23, 32}));
  for (int64_t i = 0; i < logits.count(); ++i) {
    ASSERT_EQ(doubled.as<float>()[i], 2 * logits.as<float>()[i]) << i;
  }
  ASSERT_EQ(outputs.at("hidden_states").dims(), Dims({1, 23, 64}));

  Sequence other = decoder_->new_sequence();
  NamedTensors of_last;
  const StepRequest last{&other, prompt_, {}, &of_last};
  const Tensor one = decoder_->step({&last, 1});
  EXPECT_TRUE(same(of_last.at("doubled"), doubled));
  EXPECT_EQ(one.as<float>()[5] * 2, doubled.as<float>()[22 * 32 + 5]);
}

TEST_P(OutputsTest, are_the_same_in_parts_and_in_a_batch) {
  Generator alone(decoder_);
  alone.add(prompt_, options(0));
  const Tensor whole = alone.output(0, "hidden_states");
  EXPECT_EQ(whole.dims(), Dims({1, 23, 64}));

  Generator both(decoder_);
  const size_t second = both.add(std::span(prompt_).first(4), options(0));
  const size_t first = both.add(prompt_, options(5));
  EXPECT_TRUE(same(both.output(first, "hidden_states"), whole));
  EXPECT_EQ(both.output(second, "hidden_states").dims(), Dims({1, 4, 64}));
  both.generate_next_token();
  alone.generate_next_token();
  const Tensor next = both.output(first, "hidden_states");
  EXPECT_EQ(next.dims(), Dims({1, 1, 64}));
  EXPECT_TRUE(same(next, alone.output(0, "hidden_states")));
}

TEST_P(OutputsTest, are_whole_after_a_cancelled_prefill) {
  for (int delay = 0; delay < 6; ++delay) {
    Generator generator(decoder_);
    generator.add(prompt_, options(1));
    CancelToken cancel;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay * 200));
      cancel.cancel();
    });
    try {
      generator.compute_logits(&cancel);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::interrupted) << error.message();
    }
    canceller.join();
    EXPECT_EQ(generator.output(0, "hidden_states").dims(), Dims({1, 23, 64})) << delay;
  }
}

TEST_P(OutputsTest, include_states) {
  Generator generator(decoder_);
  generator.add(prompt_, options(0));
  const Tensor keys = generator.output(0, "present.1.key");
  EXPECT_EQ(keys.dims(), Dims({1, 2, 23, 16}));
  Sequence sequence = decoder_->new_sequence();
  const StepRequest request{&sequence, prompt_};
  decoder_->step({&request, 1});
  bool found = false;
  for (const StateTensor& state : export_states(sequence)) {
    if (state.present != "present.1.key") continue;
    found = true;
    EXPECT_TRUE(same(state.tensor, keys));
  }
  EXPECT_TRUE(found);
}

TEST_P(OutputsTest, refuse_names_that_the_model_lacks) {
  Generator generator(decoder_);
  generator.add(prompt_, options(0));
  try {
    generator.output(0, "hidden_state");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(error.message().find("did you mean 'hidden_states'?"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(targets, OutputsTest, testing::Values("ref", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lathe::llm
