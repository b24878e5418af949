// SPDX-License-Identifier: MIT
// Models with an encoder and models with external data, from memory, through the C++ wrappers. The
// token after n is n plus the sum of the encoder's input; 15 is the end token. Prints "N passed, N
// failed, 0 skipped".
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "lathe/llm.h"

namespace {

int passed = 0;
int failed = 0;

void expect(bool condition, const char* what) {
  ++(condition ? passed : failed);
  if (!condition) std::printf("failed: %s\n", what);
}

template <class F>
void expect_error(lathe_error_kind kind, const std::string& beginning, F&& body) {
  try {
    body();
    expect(false, beginning.c_str());
  } catch (const lathe::Error& error) {
    const bool fits = error.kind() == kind && std::string(error.what()).starts_with(beginning);
    if (!fits) std::printf("kind %d: %s\n", error.kind(), error.what());
    expect(fits, beginning.c_str());
  }
}

using Tokens = std::vector<int32_t>;

constexpr std::string_view kConfig = R"({
  "model": {
    "type": "whisper", "vocab_size": 16, "context_length": 64, "eos_token_id": 15,
    "encoder": {
      "filename": "parts/encoder.onnx",
      "inputs": {"audio_features": "mel"},
      "outputs": {"encoder_hidden_states": "steps"}
    },
    "decoder": {
      "filename": "decoder.onnx",
      "inputs": {"input_ids": "input_ids", "encoder_hidden_states": "steps"},
      "outputs": {"logits": "logits"}
    }
  },
  "search": {"max_length": 64}
})";

constexpr std::string_view kEncoder = R"(<ir_version: 8, opset_import: ["" : 18]>
encoder (float[batch, 2, frames] mel) => (float[batch, 1, 1] steps) <
  int64[2] axes = ["location" : "axes.bin"]
> {
  steps = ReduceSum(mel, axes)
})";

constexpr std::string_view kDecoder = R"(<ir_version: 8, opset_import: ["" : 18]>
decoder (int64[batch, rows] input_ids, float[batch, 1, 1] steps)
    => (float[batch, rows, 16] logits, float[batch, rows, 1] goal) <
  int64[1] last = {2},
  float[16] tokens = ["location" : "./data/tokens.bin", "offset" : "8", "length" : "64"]
> {
  ids = Cast <to = 1> (input_ids)
  column = Unsqueeze(ids, last)
  goal = Add(column, steps)
  away = Sub(goal, tokens)
  square = Mul(away, away)
  logits = Neg(square)
})";

constexpr std::array<int64_t, 2> kAxes = {1, 2};

// Two unused values, then 0 to 15.
std::array<float, 18> token_values() {
  std::array<float, 18> values{};
  for (size_t i = 2; i < values.size(); ++i) values[i] = static_cast<float>(i - 2);
  return values;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// All files of the model without its external data.
lathe::Config without_weights() {
  lathe::Config config;
  config.add_model_data("genai_config.json", bytes_of(kConfig));
  config.add_model_data("parts/encoder.onnx", bytes_of(kEncoder));
  config.add_model_data("decoder.onnx", bytes_of(kDecoder));
  config.set_target("ref");
  return config;
}

lathe::Model open_model() {
  lathe::Config config = without_weights();
  const std::array<float, 18> tokens = token_values();
  config.add_model_data("parts/axes.bin", std::as_bytes(std::span(kAxes)));
  config.add_model_data("data/tokens.bin", std::as_bytes(std::span(tokens)));
  return lathe::Model(config);
}

// Features f32 [prompts, 2, frames] whose sums are `steps`.
lathe::Tensor features(std::span<const float> steps, int64_t frames = 3) {
  lathe::Tensor tensor(LATHE_F32, {static_cast<int64_t>(steps.size()), 2, frames});
  const std::span<float> values = tensor.values<float>();
  for (size_t i = 0; i < steps.size(); ++i) values[i * 2 * static_cast<size_t>(frames)] = steps[i];
  return tensor;
}
lathe::Tensor features(std::initializer_list<float> steps) {
  return features(std::span(steps.begin(), steps.size()));
}

lathe::Tensor ids(std::initializer_list<int64_t> dims, std::initializer_list<int64_t> values) {
  lathe::Tensor tensor(LATHE_I64, dims);
  std::copy(values.begin(), values.end(), tensor.values<int64_t>().begin());
  return tensor;
}

Tokens generated(lathe::Generator& generator, size_t index) {
  while (!generator.is_done()) generator.generate_next_token();
  const auto tokens = generator.get_sequence(index).generated;
  return {tokens.begin(), tokens.end()};
}

const Tokens kByOne = {11, 12, 13, 14, 15};
const Tokens kByTwo = {13, 15};
const Tokens kByThree = {6, 9, 12, 15};

void test_inputs_first(const lathe::Model& model) {
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  const std::vector<std::pair<std::string, lathe::Tensor>> inputs = {
      {"mel", features({1, 2, 3})}, {"input_ids", ids({3, 1}, {10, 11, 3})}};
  generator.set_inputs(inputs);
  expect(generator.prompt_count() == 3, "a prompt for each of the features");
  expect(generated(generator, 0) == kByOne, "the first prompt uses its own features");
  expect(generated(generator, 1) == kByTwo && generated(generator, 2) == kByThree,
         "other prompts use theirs");
  lathe::Generator one(model, lathe::GeneratorParams(model));
  one.set_model_input("audio_features", features({3}));  // GenAI's name
  one.append_tokens(Tokens{0, 3});
  expect(generated(one, 0) == kByThree, "a prompt alone");
}

void test_tokens_first(const lathe::Model& model) {
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  generator.append_token_sequences(std::vector<Tokens>{{10}, {4, 5, 11}, {1, 3}});
  generator.set_model_input("mel", features({7, 2, 3}));
  generator.set_model_input("mel", features({1, 2, 3}));  // replaces: no step has run
  expect(generated(generator, 0) == kByOne, "features after tokens");
  expect(generated(generator, 1) == kByTwo && generated(generator, 2) == kByThree,
         "features after tokens of any lengths");
}

void test_other_numbers(const lathe::Model& model) {
  const lathe::GeneratorParams params(model);
  lathe::Generator tokens_first(model, params);
  tokens_first.set_model_input("input_ids", ids({2, 2}, {1, 2, 3, 4}));
  expect_error(LATHE_INVALID_ARGUMENT,
               "input 'mel' is f32[3, 2, 3], with 3 prompts along the first axis, but there are 2",
               [&] { tokens_first.set_model_input("mel", features({1, 2, 3})); });
  expect_error(LATHE_INVALID_ARGUMENT, "a sequence of 0 tokens has no 'steps'",
               [&] { tokens_first.generate_next_token(); });
  tokens_first.set_model_input("mel", features({1, 2}));
  tokens_first.generate_next_token();
  expect(tokens_first.next_tokens()[0] == 3 && tokens_first.next_tokens()[1] == 6,
         "the right features");

  lathe::Generator inputs_first(model, params);
  inputs_first.set_model_input("mel", features({1, 2, 3}));
  expect_error(LATHE_INVALID_ARGUMENT,
               "input 'input_ids' is i64[2, 1], tokens of 2 prompts, but the generator has 3",
               [&] { inputs_first.set_model_input("input_ids", ids({2, 1}, {1, 2})); });
  expect_error(LATHE_INVALID_ARGUMENT,
               "cannot add prompt 3: the encoder's inputs are set for 3 prompts",
               [&] { inputs_first.append_tokens(Tokens{1}, 3); });
  inputs_first.append_tokens(Tokens{1}, 0);
  inputs_first.append_tokens(Tokens{1}, 1);
  expect_error(LATHE_INVALID_ARGUMENT, "prompt 2 of 3 has encoder inputs but no tokens",
               [&] { inputs_first.generate_next_token(); });
  inputs_first.append_tokens(Tokens{1}, 2);
  inputs_first.generate_next_token();
  expect(inputs_first.next_tokens()[2] == 4, "the last prompt");
}

void test_other_extents(const lathe::Model& model) {
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  const lathe::Tensor flat(LATHE_F32, {2, 3});
  expect_error(
      LATHE_INVALID_ARGUMENT,
      "input 'mel' is f32[2, 3], expected f32[batch, 2, frames] with all prompts along the "
      "first axis",
      [&] { generator.set_model_input("mel", flat); });
  const lathe::Tensor none(LATHE_F32, {0, 2, 3});
  expect_error(LATHE_INVALID_ARGUMENT, "input 'mel' is f32[0, 2, 3], expected",
               [&] { generator.set_model_input("mel", none); });
  const lathe::Tensor wide(LATHE_F32, {2, 4, 3});
  expect_error(LATHE_INVALID_ARGUMENT, "", [&] { generator.set_model_input("mel", wide); });
  expect(generator.prompt_count() == 0, "an error adds no prompts");
}

void test_outputs(const lathe::Model& model) {
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  generator.append_token_sequences(std::vector<Tokens>{{1}, {2, 3}});
  generator.set_model_input("mel", features({1, 2}));
  expect_error(LATHE_INVALID_ARGUMENT,
               "output 'goal' is f32[1, 2, 1] for prompt 1 and f32[1, 1, 1] for prompt 0",
               [&] { generator.get_output("goal"); });
  const lathe::Tensor second = generator.get_output("goal", 1);
  const auto goals = second.values<float>();
  expect(second.dims()[1] == 2 && goals[0] == 4 && goals[1] == 5, "the output of one prompt");
  expect(generator.get_output("goal", 0).values<float>()[0] == 2, "the output of another prompt");
  const lathe::Tensor all = generator.get_logits();
  const lathe::Tensor own = generator.get_output("logits", 1);
  expect(own.dims()[0] == 1 && own.dims()[1] == 1 && own.dims()[2] == 16 &&
             std::memcmp(own.data(), all.values<float>().data() + 16, 64) == 0,
         "the logits of one prompt");
  expect_error(LATHE_INVALID_ARGUMENT, "prompt 2 is out of range for 2 prompts",
               [&] { generator.get_output("goal", 2); });
  expect_error(LATHE_INVALID_ARGUMENT,
               "the model has no output 'goals' to return (did you mean 'goal'?)",
               [&] { generator.get_output("goals", 1); });
  expect_error(LATHE_INVALID_ARGUMENT, "the last step has 2 tokens of prompt 1 and 1 of prompt 0",
               [&] { generator.get_step_logits(); });
  lathe::Generator alone(model, lathe::GeneratorParams(model));
  alone.append_token_sequences(std::vector<Tokens>{{2, 3}});
  alone.set_model_input("mel", features({2}));
  const lathe::Tensor last = alone.get_logits();
  const lathe::Tensor step = alone.get_step_logits();  // of the same encoder results
  expect(step.dims()[1] == 2 && std::memcmp(step.values<float>().data() + 16, last.data(), 64) == 0,
         "the logits of two tokens");
  generator.generate_next_token();
  const lathe::Tensor both = generator.get_output("goal");  // one token each in the last step
  expect(both.dims()[0] == 2 && both.values<float>()[1] == 7, "all outputs");
}

void test_states() {
  const lathe::Model model("examples/counting");
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  generator.append_token_sequences(std::vector<Tokens>{{1}, {2, 3, 4}});
  expect(generator.get_output("present.0.key", 1).dims()[2] == 3, "a state of a longer prompt");
  expect(generator.get_output("present.0.key", 0).dims()[2] == 1, "and of a shorter one");
}

void test_data_files() {
  const std::array<float, 18> tokens = token_values();
  const auto all = std::as_bytes(std::span(tokens));
  lathe::Config config = without_weights();
  config.wrap_model_data("parts/axes.bin", std::as_bytes(std::span(kAxes)));
  expect_error(
      LATHE_INVALID_ARGUMENT,
      "the elements of tensor 'tokens' are in './data/tokens.bin', which is not among the files in "
      "memory",
      [&] { lathe::Model missing(config); });
  config.add_model_data("data/token.bin", all);
  expect_error(
      LATHE_INVALID_ARGUMENT,
      "the elements of tensor 'tokens' are in './data/tokens.bin', which is not among the files in "
      "memory (did you mean 'data/token.bin'?)",
      [&] { lathe::Model misnamed(config); });
  config.wrap_model_data("data/tokens.bin", all.first(71));
  expect_error(LATHE_INVALID_MODEL,
               "tensor 'tokens' needs 64 bytes at offset 8 of './data/tokens.bin', but that file "
               "has 71 bytes",
               [&] { lathe::Model cut(config); });
  config.wrap_model_data("data/tokens.bin", all);
  const lathe::Model model(config);
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  generator.append_tokens(Tokens{3});
  generator.set_model_input("mel", features({3}));
  expect(generated(generator, 0) == kByThree, "weights that were not copied");
}

void test_program() {
  const std::array<float, 18> tokens = token_values();
  const std::array<lathe::Program::DataFile, 1> data = {
      {{"data/tokens.bin", std::as_bytes(std::span(tokens))}}};
  const lathe::Program program = lathe::Program::from_memory(bytes_of(kDecoder), data);
  lathe::Session session(lathe::Plan(program), {.threads = 1});
  float step = 4;
  const auto results =
      session.run({ids({1, 1}, {5}), lathe::Tensor::wrap<float>({1, 1, 1}, &step)});
  expect(results[0].values<float>()[9] == 0 && results[0].values<float>()[7] == -4, "a program");
  expect_error(LATHE_INVALID_ARGUMENT, "the elements of tensor 'tokens' are in", [&] {
    const lathe::Program incomplete = lathe::Program::from_memory(bytes_of(kDecoder));
    const lathe::Plan plan(incomplete);
  });
}

}  // namespace

int main() {
  const lathe::Model model = open_model();
  test_inputs_first(model);
  test_tokens_first(model);
  test_other_numbers(model);
  test_other_extents(model);
  test_outputs(model);
  test_states();
  test_data_files();
  test_program();
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
