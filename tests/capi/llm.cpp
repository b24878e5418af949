// SPDX-License-Identifier: MIT
// Language models through the C++ wrappers, on the folder examples/counting: the token after n is
// n + 1; 15 is the end token. Prints "N passed, N failed, 0 skipped".
#include "lathe/llm.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

int passed = 0;
int failed = 0;
const std::string kFolder = "examples/counting";

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

std::vector<int32_t> list(std::span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

void run(lathe::Generator& generator) {
  while (!generator.is_done()) generator.generate_next_token();
}

void test_loop(const lathe::Model& model) {
  expect(model.type() == "llama" && model.vocabulary() == 16 && model.context_length() == 256,
         "what the model is");
  const lathe::Tokenizer tokenizer = model.tokenizer();
  lathe::GeneratorParams params(model);
  params.set("max_new_tokens", 4);
  params.set("stop_strings", R"(["six"])");
  expect(params.get("max-new-tokens") == "4" && params.get("do_sample") == "false", "options");
  lathe::Generator generator(model, params);
  generator.append_tokens(tokenizer.encode("two three"));
  lathe::TokenizerStream stream(tokenizer);
  std::string text;
  while (!generator.is_done()) {
    generator.generate_next_token();
    text += stream.step(static_cast<uint32_t>(generator.next_tokens()[0]));
  }
  expect(text == "four five six", "a stream");
  const auto sequence = generator.get_sequence();
  expect(list(sequence.generated) == std::vector<int32_t>{4, 5, 6}, "generated tokens");
  expect(sequence.text == "four five " && sequence.reason == LATHE_FINISHED_BY_STOP, "a stop");
  expect_error(LATHE_INVALID_ARGUMENT, "all of 1 prompts are done",
               [&] { generator.generate_next_token(); });
  generator.append_tokens(std::vector<int32_t>{9});
  run(generator);
  expect(generator.get_sequence().reason == LATHE_FINISHED_BY_LENGTH, "a second turn");
  expect(generator.token_count() == 10, "its tokens");
  generator.rewind_to(6);
  generator.generate_next_token();
  expect(generator.next_tokens()[0] == 10, "rewound");
}

void test_batch_and_beams(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  params.set("max_new_tokens", 3);
  lathe::Generator batch(model, params);
  batch.append_token_sequences(std::vector<std::vector<int32_t>>{{13}, {1, 2, 3}});
  std::vector<int32_t> second;
  while (!batch.is_done()) {
    batch.generate_next_token();
    second.push_back(batch.next_tokens()[0]);
  }
  expect(second == std::vector<int32_t>{14, 15, -1}, "a sequence that has ended chooses nothing");
  expect(batch.sequence_count() == 2 && batch.prompt_count() == 2, "two sequences");
  expect(batch.get_sequence(1).text == "four five six", "of different lengths");
  params.set("num_beams", 2);
  params.set("num_return_sequences", 2);
  lathe::Generator beams(model, params);
  beams.append_tokens(std::vector<int32_t>{3});
  run(beams);
  expect(beams.sequence_count() == 2 && beams.get_sequence(0).score > beams.get_sequence(1).score,
         "beams, best first");
}

std::vector<int32_t> generated(lathe::Generator& generator, size_t sequence) {
  return list(generator.get_sequence(sequence).generated);
}

void test_mixed_batch(const lathe::Model& model) {
  expect(list(model.end_tokens()) == std::vector<int32_t>{15}, "end tokens");
  lathe::GeneratorParams greedy(model);
  greedy.set("max_new_tokens", 3);
  greedy.set("log_probabilities", 2);
  lathe::GeneratorParams sampled(model);
  sampled.set("max_new_tokens", 3);
  sampled.set("do_sample", true);
  sampled.set("temperature", 1e6);
  sampled.set("random_seed", 7);
  const std::vector<int32_t> prompt = {3};
  lathe::Generator batch(model, greedy);
  expect(batch.add_prompt(prompt, greedy) == 0 && batch.add_prompt(prompt, sampled) == 1,
         "prompts");
  run(batch);
  lathe::Generator alone(model, sampled);
  alone.append_tokens(prompt);
  run(alone);
  expect(generated(batch, 0) == std::vector<int32_t>{4, 5, 6}, "a greedy prompt");
  expect(generated(batch, 1) == generated(alone, 0), "a sampled prompt, equal to the one alone");
  const auto choices = batch.log_probabilities(0);
  expect(choices.size() == 3 && choices[1].most_likely.size() == 2 &&
             choices[1].most_likely[0].token == 5 &&
             choices[1].most_likely[0].log_probability == choices[1].log_probability &&
             choices[1].log_probability <= 0 &&
             choices[1].most_likely[1].log_probability <= choices[1].log_probability,
         "log-probabilities");
  expect_error(LATHE_INVALID_ARGUMENT,
               "generated token 0 of sequence 1 is out of range for 0 recorded log-probabilities: "
               "set the option 'log_probabilities'",
               [&] { batch.log_probabilities(1); });
}

void test_items(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  params.set("max_new_tokens", 3);
  lathe::Generator generator(model, params);
  generator.append_tokens(std::vector<int32_t>{3});
  const uint32_t some = 1U << 8 | 1U << 9;
  generator.set_token_mask({&some, 1});
  generator.generate_next_token();
  const int32_t chosen = generator.next_tokens()[0];
  expect(chosen == 8 || chosen == 9, "a token of the mask");
  generator.generate_next_token();
  expect(generator.next_tokens()[0] == chosen + 1, "a token without a mask");
  const uint32_t none = 0;
  expect_error(LATHE_INVALID_ARGUMENT, "a token mask has none of 16 tokens",
               [&] { generator.set_token_mask({&none, 1}); });
  expect_error(LATHE_INVALID_ARGUMENT,
               "a token mask has 2 words, expected 1 for a vocabulary of 16",
               [&] { generator.set_token_mask(std::vector<uint32_t>(2, 1)); });
  std::vector<float> rows(8);
  expect_error(LATHE_INVALID_ARGUMENT,
               "embeddings are f32[1, 8], but the model accepts token ids only",
               [&] { generator.append_embeddings(lathe::Tensor::wrap({1, 8}, rows.data())); });
  std::vector<int64_t> numbers = {0, 1, 2};
  const lathe::Tensor transposed = lathe::Tensor::wrap({1, 3}, numbers.data());
  expect_error(LATHE_INVALID_ARGUMENT, "position_ids is i64[1, 3], expected i64[1] or [3, 1]", [&] {
    generator.append_embeddings(lathe::Tensor::wrap({1, 8}, rows.data()), 1, &transposed);
  });
  expect(generator.prompt_count() == 1, "an error adds no prompt");
}

void test_forks(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  params.set("max_new_tokens", 4);
  lathe::Generator generator(model, params);
  generator.append_tokens(std::vector<int32_t>{3});
  generator.generate_next_token();
  generator.generate_next_token();
  static_cast<void>(generator.get_logits());  // the last token has been run
  expect(generator.fork() == 1, "a fork");
  lathe::GeneratorParams shorter(model);
  shorter.set("max_new_tokens", 3);
  expect(generator.fork(0, &shorter) == 2, "a fork with other options");
  const std::string bytes = generator.save();
  const auto states = generator.export_states();
  expect(states.size() == 2 && states[0].past == "past_key_values.0.key" &&
             states[0].present == "present.0.key" && states[0].tensor.dims()[0] == 1,
         "exported states");
  const lathe::Tensor ids = generator.get_input("input_ids");
  expect(ids.dims()[0] == 3 && ids.dims()[1] == 3 && ids.values<int64_t>()[2] == 5, "the tokens");
  expect_error(LATHE_INVALID_ARGUMENT,
               "input 'attention_mask' is not retained, expected the tokens or a state",
               [&] { generator.get_input("attention_mask"); });
  lathe::Generator other(model, params);
  expect(other.restore(bytes) == 0, "restored");
  run(generator);
  run(other);
  const std::vector<int32_t> whole = {4, 5, 6, 7};
  expect(generated(generator, 0) == whole && generated(generator, 1) == whole, "forks continue");
  expect(generated(generator, 2) == std::vector<int32_t>{4, 5, 6}, "the fork's options apply");
  expect(generated(other, 0) == whole && other.get_sequence().text == "four five six seven",
         "the restored prompt continues");
  std::string damaged = bytes;
  damaged[30] = 'x';
  expect_error(LATHE_INVALID_ARGUMENT, "a saved ", [&] { other.restore(damaged); });
  expect_error(LATHE_INVALID_ARGUMENT, "8 bytes are not a saved prompt: they do not begin with",
               [&] { other.restore("12345678"); });
  lathe::GeneratorParams beams(model);
  beams.set("num_beams", 2);
  expect_error(LATHE_INVALID_ARGUMENT, "2 beams cannot continue 4 generated tokens",
               [&] { generator.fork(0, &beams); });
  lathe::GeneratorParams likely(model);
  likely.set("log_probabilities", 1);
  expect_error(LATHE_INVALID_ARGUMENT,
               "log-probabilities of 4 generated tokens are requested, but the state has 0",
               [&] { generator.fork(0, &likely); });
  lathe::Generator searched(model, beams);
  searched.append_tokens(std::vector<int32_t>{3});
  expect(searched.get_logits().dims()[0] == 1, "beams before they diverge");
  searched.generate_next_token();
  const lathe::Tensor logits = searched.get_logits();
  expect(logits.dims()[0] == 2, "a row for each beam");
  searched.set_logits(logits);
  expect_error(LATHE_INVALID_ARGUMENT, "prompt 0 has 2 branches: returning a state requires one",
               [&] { searched.fork(); });
}

// Replaces the logits of a batch in which one prompt is done.
void test_logits_of_some(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  lathe::GeneratorParams shorter(model);
  shorter.set("max_new_tokens", 1);
  lathe::Generator generator(model, params);
  generator.add_prompt(std::vector<int32_t>{3}, shorter);
  generator.add_prompt(std::vector<int32_t>{7}, params);
  generator.generate_next_token();
  const lathe::Tensor logits = generator.get_logits();
  expect(logits.dims()[0] == 2, "a row for each prompt");
  const auto values = logits.values<float>();
  std::fill(values.begin(), values.end(), 0.0F);
  values[16 + 12] = 1;
  generator.set_logits(logits);
  generator.generate_next_token();
  expect(generator.next_tokens()[0] == -1 && generator.next_tokens()[1] == 12,
         "a token for the unfinished prompt");
}

void test_memory_limit() {
  lathe::Config config(kFolder);
  config.set_memory_limit(300);
  const lathe::Model model(config);
  lathe::Generator generator(model, lathe::GeneratorParams(model));
  expect_error(LATHE_OUT_OF_MEMORY, "3 tokens require 384 bytes of KV caches",
               [&] { generator.append_tokens(std::vector<int32_t>{1, 2, 3}); });
}

void test_logits(const lathe::Model& model) {
  const lathe::GeneratorParams params(model);
  lathe::Generator generator(model, params);
  std::vector<int64_t> ids = {2, 3};
  const std::vector<std::pair<std::string, lathe::Tensor>> inputs = {
      {"input_ids", lathe::Tensor::wrap<int64_t>({1, 2}, ids.data())}};
  generator.set_inputs(inputs);
  const lathe::Tensor logits = generator.get_logits();
  expect(logits.dims().size() == 3 && logits.dims()[0] == 1 && logits.dims()[2] == 16, "extents");
  const auto values = logits.values<float>();
  expect(std::max_element(values.begin(), values.end()) - values.begin() == 4, "logits");
  const lathe::Tensor again = generator.get_output("logits");
  expect(std::equal(values.begin(), values.end(), again.values<float>().begin()), "by name");
  const lathe::Tensor step = generator.get_step_logits();
  expect(step.dims()[1] == 2 &&
             std::equal(values.begin(), values.end(), step.values<float>().begin() + 16),
         "the logits of both tokens");
  const lathe::Tensor keys = generator.get_output("present.0.key");
  expect(keys.dims().size() == 4 && keys.dims()[0] == 1 && keys.dims()[2] == 2, "a state by name");
  std::fill(values.begin(), values.end(), 0.0F);
  values[11] = 1;
  generator.set_logits(logits);
  generator.generate_next_token();
  expect(generator.next_tokens()[0] == 11, "chosen from others");
  expect(generator.get_step_logits().dims()[1] == 2, "a generated token has not run");
  bool throws = true;
  generator.set_hook([&](size_t, std::span<const int32_t> tokens, std::span<float> seen) {
    if (std::exchange(throws, false)) throw std::runtime_error("not now");
    std::fill(seen.begin(), seen.end(), 0.0F);
    seen[static_cast<size_t>(tokens.back()) + 2] = 1;
  });
  try {
    generator.generate_next_token();
    expect(false, "the exception of a hook");
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()) == "not now", "the exception of a hook");
  }
  generator.generate_next_token();
  generator.set_hook({});
  run(generator);
  expect(generator.get_sequence().text == "eleven thirteen fourteen", "a hook");
  expect(generator.get_step_logits().dims()[1] == 1, "a step of one token");
}

void test_one_call(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  expect(model.generate("eleven twelve", params) == "thirteen fourteen", "one call");
  int pieces = 0;
  params.set("temperature", 0.0);
  params.set("do_sample", true);
  model.generate("ten", params, [&](std::string_view) { ++pieces; });
  expect(pieces == 4, "in pieces");
  pieces = 0;
  try {
    model.generate("ten", params, [&](std::string_view) {
      if (++pieces == 2) throw std::runtime_error("enough");
    });
    expect(false, "an exception of the callback is rethrown");
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()) == "enough" && pieces == 2, "the callback's exception");
  }
  expect(model.generate("eleven twelve", params) == "thirteen fourteen", "the model after it");
  const std::string prompt =
      model.chat_template().render(R"([{"role": "user", "content": "ten"}])").text;
  expect(prompt == "ten ", "the chat template");
}

void test_cancel() {
  lathe::Config config(kFolder);
  config.overlay(
      R"({"model": {"context_length": 100000000}, "search": {"max_length": 100000000}})");
  config.overlay(R"({"search": {"suppress_tokens": [15]}})");
  config.set_threads(1);
  const lathe::Model model(config);
  const lathe::GeneratorParams params(model);
  expect(params.get("suppress_tokens") == "[15]", "two overlays");
  lathe::Generator generator(model, params);
  generator.append_tokens(std::vector<int32_t>{1});
  lathe::Cancel cancel;
  std::thread other([&] { cancel.set(); });
  size_t count = 0;
  try {
    while (true) {
      count = generator.token_count();
      generator.generate_next_token(&cancel);
    }
  } catch (const lathe::Error& error) {
    expect(error.kind() == LATHE_INTERRUPTED, "cancelled from another thread");
  }
  other.join();
  expect(generator.token_count() == count, "cancellation keeps the tokens");
  cancel.reset();
  generator.generate_next_token(&cancel);
  expect(generator.token_count() == count + 1, "the generator continues");
}

std::string read(const std::string& name) {
  std::ifstream file(kFolder + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void test_memory() {
  lathe::Config config;
  for (const char* name :
       {"genai_config.json", "model.onnx", "tokenizer.json", "chat_template.jinja", "other"}) {
    const std::string bytes = read(name);
    config.add_model_data(name, std::as_bytes(std::span(bytes)));
  }
  config.remove_model_data("./other");
  config.set_target("ref");
  config.set_compute("f32");
  expect_error(LATHE_INVALID_ARGUMENT, "compute", [&] { config.set_compute("f31"); });
  const lathe::Model model(config);
  expect(model.device_type() == "ref", "a target");
  expect(model.generate("twelve", lathe::GeneratorParams(model)) == "thirteen fourteen",
         "a model from memory");
  expect(model.chat_template().render(R"([{"role": "user", "content": "x"}])").text == "x ",
         "and its template");
}

void test_providers() {
  lathe::Config config(kFolder);
  config.append_provider("cuda");
  config.set_provider_option("cuda", "enable_cuda_graph", "1");
  config.clear_providers();
  config.append_provider("cpu");
  const lathe::Model model(config);
  expect(model.device_type() == "cpu" || model.device_type() == "ref", "the provider's target");
  config.append_provider("warp");
  expect_error(
      LATHE_INVALID_MODEL,
      "'model.decoder.session_options.provider_options[1]' has the unknown provider 'warp'",
      [&] { lathe::Model wrong(config); });
}

// Providers of the folder keep their options and precede appended ones.
void test_own_providers() {
  std::string json = read("genai_config.json");
  const std::string decoder = R"("decoder": {)";
  json.insert(json.find(decoder) + decoder.size(),
              R"("session_options": {"intra_op_num_threads": 1,
                 "provider_options": [{"cuda": {"device_id": "0"}}]},)");
  lathe::Config config(kFolder);
  config.append_provider("cpu");  // before the file is there
  config.add_model_data("./genai_config.json", std::as_bytes(std::span(json)));
  config.set_provider_option("CUDAExecutionProvider", "enable_cuda_graph", "1");
  const lathe::Model model(config);
  expect(model.device_type() == "cpu" || model.device_type() == "ref", "its target");
  config.append_provider("warp");
  expect_error(
      LATHE_INVALID_MODEL,
      "'model.decoder.session_options.provider_options[2]' has the unknown provider 'warp'",
      [&] { lathe::Model wrong(config); });
  config.overlay(R"({"model": {"decoder": {"session_options": {"provider_options": []}}}})");
  const lathe::Model changed(config);
  expect(changed.type() == "llama", "changes are made in their order");
}

void test_refusals(const lathe::Model& model) {
  lathe::GeneratorParams params(model);
  expect_error(LATHE_UNSUPPORTED, "guidance by a 'json_schema' is not supported",
               [&] { params.set_guidance("json_schema", "{}"); });
  expect_error(LATHE_INVALID_ARGUMENT, "unknown search option 'top_q' (did you mean 'top_k'?)",
               [&] { params.set("top_q", 1); });
  lathe::Generator generator(model, params);
  expect_error(LATHE_UNSUPPORTED, "adapters are not supported: 'red' cannot be made active",
               [&] { generator.set_active_adapter("red"); });
  float value = 0;
  const lathe::Tensor tensor = lathe::Tensor::wrap<float>({1, 1}, &value);
  expect_error(LATHE_INVALID_ARGUMENT, "input 'attention_mask' is computed from the tokens",
               [&] { generator.set_model_input("attention_mask", tensor); });
  expect_error(LATHE_UNSUPPORTED, "input 'pixel_values' cannot be set",
               [&] { generator.set_model_input("pixel_values", tensor); });
  expect_error(LATHE_INVALID_ARGUMENT, "input 'input_ids' is f32[1, 1], expected i32 or i64",
               [&] { generator.set_model_input("input_ids", tensor); });
  expect_error(LATHE_INVALID_ARGUMENT, "the model has no output 'hidden_states' to return", [&] {
    lathe::Generator begun(model, lathe::GeneratorParams(model));
    begun.append_tokens(std::vector<int32_t>{2, 3});
    begun.get_output("hidden_states");
  });
  expect_error(LATHE_INVALID_ARGUMENT, "token 16 is outside the vocabulary of 16 tokens",
               [&] { generator.append_tokens(std::vector<int32_t>{16}); });
  expect_error(LATHE_INVALID_ARGUMENT, "all of 0 prompts are done or have no tokens",
               [&] { generator.generate_next_token(); });
  expect_error(
      LATHE_IO,
      "'nowhere' is not a model: expected a folder with a genai_config.json or a config.json, "
      "or a GGUF file",
      [] { lathe::Model missing("nowhere"); });
}

}  // namespace

int main() {
  const lathe::Model model(kFolder);
  test_loop(model);
  test_batch_and_beams(model);
  test_mixed_batch(model);
  test_items(model);
  test_forks(model);
  test_logits_of_some(model);
  test_memory_limit();
  test_logits(model);
  test_one_call(model);
  test_cancel();
  test_memory();
  test_providers();
  test_own_providers();
  test_refusals(model);
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
