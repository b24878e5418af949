// SPDX-License-Identifier: MIT
// A decoder of standard operators: greedy tokens equal those of a reference implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "import/onnx/importer.h"
#include "import/onnx/reader.h"
#include "passes/promote_state.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/data.h"

namespace lathe::test {
namespace {

constexpr int kLayers = 5;
constexpr size_t kTokens = 200;

Tensor integers(Dims dims, const std::vector<int64_t>& values) {
  Tensor tensor(ElementType::i64, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.as<int64_t>());
  return tensor;
}

std::vector<StatePair> cache_pairs() {
  std::vector<StatePair> pairs;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const char* part : {"key", "value"}) {
      pairs.push_back({fmt::format("past_key_values.{}.{}", layer, part),
                       fmt::format("present.{}.{}", layer, part)});
    }
  }
  return pairs;
}

int64_t best_of_row(const Tensor& logits, int64_t batch, int64_t row) {
  const TensorView view = logits.view();
  const float* at = view.as<float>() + batch * view.strides[0] + row * view.strides[1];
  return std::max_element(at, at + view.dims[2]) - at;
}

class Decoder : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = test_data("models/llm");
    if (!folder) GTEST_SKIP() << "test data has no models/llm";
    folder_ = folder->string();
    std::ifstream file(folder_ + "/stories260k/expected.json");
    const nlohmann::json json = nlohmann::json::parse(file);
    expected_ = json["greedy"]["ids"].get<std::vector<int64_t>>();
    prompt_ = json["greedy_prompt"]["prompt_ids"].get<std::vector<int64_t>>();
    continuation_ = json["greedy_prompt"]["ids"].get<std::vector<int64_t>>();
  }

  std::unique_ptr<Program> load(const std::string& name = "model.onnx") const {
    return import_onnx(onnx::read_model(folder_ + "/stories260k-onnx/" + name));
  }

  // Inputs of a step of one sequence: ids, a mask of ones, positions.
  static std::vector<Box> step_inputs(const Program& program, const std::vector<int64_t>& ids,
                                      int64_t past) {
    const auto n = static_cast<int64_t>(ids.size());
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < n; ++i) positions.push_back(past + i);
    std::vector<Box> inputs;
    for (const auto& parameter : program.main().parameters()) {
      if (parameter->name() == "input_ids") inputs.push_back(Box{integers({1, n}, ids)});
      if (parameter->name() == "position_ids") inputs.push_back(Box{integers({1, n}, positions)});
      if (parameter->name() == "attention_mask") {
        inputs.push_back(Box{integers({1, past + n}, std::vector<int64_t>(past + n, 1))});
      }
    }
    return inputs;
  }

  std::string folder_;
  std::vector<int64_t> expected_;
  std::vector<int64_t> prompt_;
  std::vector<int64_t> continuation_;
};

TEST_F(Decoder, MatchesTheReferenceWithTheKvCacheAsInputs) {
  const auto plan = compile(load());
  Session session(plan);
  std::vector<Box> caches(2 * kLayers, Box{Tensor(ElementType::f32, {1, 4, 0, 8})});
  std::vector<int64_t> ids{1};
  while (ids.size() < kTokens) {
    std::vector<Box> inputs =
        step_inputs(*plan->program, {ids.back()}, static_cast<int64_t>(ids.size()) - 1);
    inputs.insert(inputs.end(), caches.begin(), caches.end());
    const std::vector<Box> results = session.run(inputs);
    ids.push_back(best_of_row(results[0].tensor(), 0, 0));
    caches.assign(results.begin() + 1, results.end());
    ASSERT_EQ(ids.back(), expected_[ids.size() - 1]) << "token " << ids.size() - 1;
  }
  EXPECT_EQ(session.counters().input_bytes_copied, 0);
  EXPECT_EQ(session.counters().output_bytes_copied, 0);
  EXPECT_EQ(plan->compilations, 1);
}

TEST_F(Decoder, MatchesTheReferenceWithOneBufferAsPastAndPresent) {
  const auto plan = compile(load());
  Session session(plan);
  constexpr int64_t kRoom = 256;
  std::vector<Tensor> caches;
  for (int i = 0; i < 2 * kLayers; ++i) caches.emplace_back(ElementType::f32, Dims{1, 4, kRoom, 8});
  const auto rows = [&](size_t i, int64_t n) {
    return Tensor(ElementType::f32, {1, 4, n, 8}, {4 * kRoom * 8, kRoom * 8, 8, 1},
                  caches[i].data(), caches[i].owner());
  };
  std::vector<int64_t> ids{1};
  while (ids.size() < kTokens) {
    const auto past = static_cast<int64_t>(ids.size()) - 1;
    std::vector<Box> inputs = step_inputs(*plan->program, {ids.back()}, past);
    std::vector<Tensor> outputs{Tensor()};
    for (size_t i = 0; i < caches.size(); ++i) {
      inputs.push_back(Box{rows(i, past)});
      outputs.push_back(rows(i, past + 1));
    }
    RunOptions options;
    options.outputs = outputs;
    ids.push_back(best_of_row(session.run(inputs, options)[0].tensor(), 0, 0));
    ASSERT_EQ(ids.back(), expected_[ids.size() - 1]) << "token " << ids.size() - 1;
  }
  EXPECT_EQ(session.counters().input_bytes_copied, 0);
  EXPECT_EQ(session.counters().output_bytes_copied, 0);
}

// Allocates until it is sealed.
class SealedAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, size_t alignment) override {
    EXPECT_FALSE(sealed) << bytes << " bytes were allocated within a token";
    return host_allocator().allocate(bytes, alignment);
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    host_allocator().deallocate(pointer, bytes);
  }
  bool sealed = false;
};

TEST_F(Decoder, StatesNeedNoCopiesOrAllocations) {
  std::unique_ptr<Program> program = load();
  promote_state(*program, cache_pairs());
  const auto plan = compile(std::move(program));
  ASSERT_EQ(plan->program->states().size(), 2U * kLayers);
  SealedAllocator allocator;
  Session session(plan, {.allocator = &allocator, .warn = {}});
  Tensor logits(ElementType::f32, {1, 1, 512});
  const std::vector<Tensor> outputs{logits};
  RunOptions options;
  options.outputs = outputs;
  std::vector<Box> results(1);
  std::vector<int64_t> ids{1};
  while (ids.size() < kTokens) {
    const auto past = static_cast<int64_t>(ids.size()) - 1;
    const std::vector<Box> inputs = step_inputs(*plan->program, {ids.back()}, past);
    // Only the first steps, and lengths that change the capacity, may allocate.
    allocator.sealed =
        past > 4 && capacity_for(past + 1) == capacity_for(past) && capacity_floor(past) != past;
    session.run(inputs, results, options);
    allocator.sealed = false;
    ids.push_back(best_of_row(logits, 0, 0));
    ASSERT_EQ(ids.back(), expected_[ids.size() - 1]) << "token " << ids.size() - 1;
  }
  EXPECT_EQ(session.counters().state_bytes_copied, 0);
  EXPECT_EQ(session.counters().input_bytes_copied, 0);
  EXPECT_EQ(session.counters().output_bytes_copied, 0);
  EXPECT_EQ(plan->compilations, 1);
}

TEST_F(Decoder, RunsTwoSequencesOfDifferentLengthsInOneBatch) {
  std::unique_ptr<Program> program = load();
  promote_state(*program, cache_pairs());
  const auto plan = compile(std::move(program));
  Session session(plan);
  // Two prompts, padded on the right to the longer one; each sequence has its own length.
  std::vector<std::vector<int64_t>> ids{{expected_.begin(), expected_.begin() + 3}, prompt_};
  const std::vector<std::vector<int64_t>> expected{expected_, continuation_};
  const auto longest = static_cast<int64_t>(std::max(ids[0].size(), ids[1].size()));
  std::vector<int64_t> cached(2, 0);  // tokens in each sequence's KV cache
  int64_t held = 0;
  for (int step = 0; step < 40; ++step) {
    const int64_t s = step == 0 ? longest : 1;
    const int64_t total = held + s;
    std::vector<int64_t> tokens;
    std::vector<int64_t> positions;
    std::vector<int64_t> mask;
    std::vector<int64_t> counts;
    for (size_t b = 0; b < 2; ++b) {
      const int64_t count = step == 0 ? static_cast<int64_t>(ids[b].size()) : 1;
      counts.push_back(count);
      for (int64_t i = 0; i < s; ++i) {
        const bool real = i < count;
        tokens.push_back(real ? ids[b][static_cast<size_t>(cached[b] + i)] : 0);
        positions.push_back(real ? cached[b] + i : 0);
      }
      for (int64_t i = 0; i < total; ++i) mask.push_back(i < cached[b] + count ? 1 : 0);
    }
    std::vector<Box> inputs;
    for (const auto& parameter : plan->program->main().parameters()) {
      const bool is_mask = parameter->name() == "attention_mask";
      const auto& values = is_mask                               ? mask
                           : parameter->name() == "position_ids" ? positions
                                                                 : tokens;
      inputs.push_back(Box{integers({2, is_mask ? total : s}, values)});
    }
    RunOptions options;
    options.rows = counts;
    const Tensor logits = session.run(inputs, options)[0].tensor();
    for (size_t b = 0; b < 2; ++b) {
      cached[b] += counts[b];
      ids[b].push_back(best_of_row(logits, static_cast<int64_t>(b), counts[b] - 1));
      ASSERT_EQ(ids[b].back(), expected[b][ids[b].size() - 1])
          << "sequence " << b << ", token " << ids[b].size() - 1;
    }
    held = std::max(cached[0], cached[1]);
  }
}

// The present is a result of GroupQueryAttention, not of Concat: the states are replaced.
TEST_F(Decoder, ReplacesKvCachesThatAttentionReturns) {
  std::unique_ptr<Program> program = load("model_genai.onnx");
  promote_state(*program, cache_pairs());
  const auto plan = compile(std::move(program));
  for (const State& state : plan->program->states()) EXPECT_EQ(state.kind, StateKind::carry);
  Session session(plan);
  std::vector<int64_t> ids{1};
  while (ids.size() < 60) {
    const auto past = static_cast<int64_t>(ids.size()) - 1;
    const std::vector<Box> inputs = step_inputs(*plan->program, {ids.back()}, past);
    ids.push_back(best_of_row(session.run(inputs)[0].tensor(), 0, 0));
    ASSERT_EQ(ids.back(), expected_[ids.size() - 1]) << "token " << ids.size() - 1;
  }
}

}  // namespace
}  // namespace lathe::test
