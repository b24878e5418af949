// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "llm/model/step_tables.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

constexpr int64_t kHeads = 6, kKeyHeads = 2, kSize = 20;
constexpr int64_t kColumns = (kHeads + 2 * kKeyHeads) * kSize;
constexpr int64_t kRows = 420;  // several of the kernel's blocks

struct Case {
  std::string_view name;
  std::string_view attributes;
  int64_t window = 0;
  int64_t scales = 0;  // of an int8 KV cache; 0: f32
};

std::unique_ptr<Program> program_of(const Case& p) {
  const std::string_view cache = p.scales > 0 ? "i8" : "f32";
  return parse_program(fmt::format(R"(program "rows" stage imported {{
  symbol s bound 1..*
  symbol n bound 0..*
  symbol columns bound 0..*
  symbol pages length 0..*
  symbol slots bound 0..*
  state @keys : {0}[pages, {1}, slots, {2}] append axis 0 paged
  state @values : {0}[pages, {1}, slots, {2}] append axis 0 paged
  module @main(%q: f32[1, s, {3}], %cos: f32[{4}, 8], %sin: f32[{4}, 8], %ks: f32[{5}], %vs: f32[{5}], %bounds: i32[n + 1], %past: i32[n], %table: i32[n, columns]) {{
    %k = state_read() {{state = "keys"}}
    %v = state_read() {{state = "values"}}
    %y, %k1, %v1 = sequence_attention(%q, _, _, %k, %v, %bounds, %past, %table, %cos, %sin{6}) {{num_heads = {7}, kv_num_heads = {1}, do_rotary = true{8}}}
    return %y as "y"
  }}
}})",
                                   cache, kKeyHeads, kSize, kColumns, kRows, p.scales,
                                   p.scales > 0 ? ", _, _, %ks, %vs" : "", kHeads, p.attributes));
}

class Model {
 public:
  Model(const Case& p, std::string_view target, ThreadPool* pool = nullptr, int64_t page_slots = 16)
      : plan_(compile(program_of(p), {.target = find_target(target)})),
        session_(plan_, {.pool = pool, .warn = {}}) {
    SequenceState state;
    state.grows = true;
    state.extents = {kKeyHeads, kSize};
    state.window = p.window;
    if (p.scales > 0) state.element = ElementType::i8;
    state.name = "keys";
    SequenceState values = state;
    values.name = "values";
    layout_ = std::make_shared<const llm::CacheLayout>(std::vector{state, values}, page_slots);
    const auto angles = [](float factor) {
      Tensor table(ElementType::f32, {kRows, 8});
      for (int64_t i = 0; i < table.count(); ++i) {
        table.as<float>()[i] = std::sin(factor * static_cast<float>(i % 97));
      }
      return table;
    };
    cos_ = angles(0.7F);
    sin_ = angles(1.3F);
    scales_ = Tensor(ElementType::f32, {p.scales});
    for (int64_t i = 0; i < p.scales; ++i) {
      scales_.as<float>()[i] = 0.008F + 0.001F * static_cast<float>(i % 7);
    }
  }

  llm::Sequence sequence() const { return llm::Sequence(layout_); }
  const Plan& plan() const { return *plan_; }

  static Box table(Dims dims, std::span<const int32_t> values) {
    Tensor tensor(ElementType::i32, std::move(dims));
    std::ranges::copy(values, tensor.as<int32_t>());
    return Box{tensor};
  }

  // Tokens [first, first + count) of each sequence's own inputs.
  std::vector<float> step(std::vector<llm::Sequence>& sequences, std::span<const int64_t> counts) {
    llm::StepTables::Lists lists;
    llm::StepTables step(*layout_, lists);
    int64_t rows = 0;
    for (const int64_t count : counts) rows += count;
    Tensor q(ElementType::f32, {1, rows, kColumns});
    float* to = q.as<float>();
    for (size_t i = 0; i < sequences.size(); ++i) {
      for (int64_t at = 0; at < counts[i] * kColumns; ++at) {
        const int64_t place = sequences[i].length() * kColumns + at;
        *to++ = std::sin(static_cast<float>(place % 7919) * 0.37F + static_cast<float>(i));
      }
      step.add(sequences[i], counts[i]);
    }
    step.prepare();
    const std::array memory = {step.memory(layout_->place("keys")),
                               step.memory(layout_->place("values"))};
    RunOptions options;
    options.pages = memory;
    const auto sequence_count = std::ssize(step.past_lengths());
    const llm::StepTables::Pages& pages = step.pages(0);
    const std::vector<Box> inputs = {Box{q},
                                     Box{cos_},
                                     Box{sin_},
                                     Box{scales_},
                                     Box{scales_},
                                     table({sequence_count + 1}, step.token_bounds()),
                                     table({sequence_count}, step.past_lengths()),
                                     table({sequence_count, pages.columns}, pages.ids)};
    const std::vector<Box> results = session_.run(inputs, options);
    step.commit();
    const auto y = results[0].tensor().elements<float>();
    return {y.begin(), y.end()};
  }
  // One sequence in several steps.
  std::vector<float> run(int64_t part) {
    std::vector<llm::Sequence> own = {sequence()};
    std::vector<float> all;
    for (int64_t at = 0; at < kRows; at += part) {
      const std::array counts = {std::min(part, kRows - at)};
      const std::vector<float> y = step(own, counts);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  Session session_;
  std::shared_ptr<const llm::CacheLayout> layout_;
  Tensor cos_;
  Tensor sin_;
  Tensor scales_;
};

class SequenceAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(SequenceAttentionTest, AgreesWithTheReference) {
  Model reference(GetParam(), "ref"), model(GetParam(), "cpu");
  const Kernel& kernel = *model.plan().modules.front().launches.back().kernel;
  EXPECT_EQ(kernel.name(), "cpu.sequence_attention");
  EXPECT_NE(kernel.detail().find("may fall back to ref if the elements of a head are not "
                                 "contiguous or the page length is not a power of two"),
            std::string::npos);
  const std::vector<float> expected = reference.run(kRows), found = model.run(kRows);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6F) << i;
}

TEST_P(SequenceAttentionTest, HasTheSameBitsForAnyStepAndPageSize) {
  const std::vector<float> expected = Model(GetParam(), "cpu").run(kRows);
  for (const int64_t part : {1, 16, 130}) {
    EXPECT_EQ(Model(GetParam(), "cpu").run(part), expected) << "parts of " << part;
  }
  for (const int64_t rows : {1, 64, 128, 512}) {
    EXPECT_EQ(Model(GetParam(), "cpu", nullptr, rows).run(1), expected) << "pages of " << rows;
  }
  // A page size that is not a power of two falls back to the reference, which gathers K and V.
  const std::vector<float> odd = Model(GetParam(), "cpu", nullptr, 24).run(kRows);
  for (size_t i = 0; i < odd.size(); ++i) ASSERT_NEAR(odd[i], expected[i], 2e-6F) << i;
}

TEST_P(SequenceAttentionTest, HasTheSameBitsOnAnyNumberOfThreads) {
  const std::vector<float> expected = Model(GetParam(), "cpu").run(kRows);
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(Model(GetParam(), "cpu", &pool).run(kRows), expected) << threads;
    EXPECT_EQ(Model(GetParam(), "cpu", &pool).run(3), expected) << threads;
  }
}

// Eight sequences of unequal lengths run in several steps; each result equals that of a run alone.
TEST_P(SequenceAttentionTest, HasTheSameBitsAloneAndInABatch) {
  ThreadPool pool(2);
  Model model(GetParam(), "cpu", &pool);
  std::vector<llm::Sequence> batch(8, model.sequence());
  const std::vector<std::vector<int64_t>> steps = {
      {200, 3, 3, 1, 130, 7, 64, 17}, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 5, 5, 2, 1, 1, 1, 30}};
  std::vector<std::vector<float>> found(8), expected(8);
  for (const auto& counts : steps) {
    const std::vector<float> y = model.step(batch, counts);
    auto at = y.begin();
    for (size_t i = 0; i < 8; ++i) {
      found[i].insert(found[i].end(), at, at + counts[i] * kHeads * kSize);
      at += counts[i] * kHeads * kSize;
    }
  }
  // Inputs depend on the sequence's index, so the other sequences stay empty.
  for (size_t i = 0; i < 8; ++i) {
    std::vector<llm::Sequence> alone(8, model.sequence());
    std::vector<int64_t> counts(8, 0);
    for (const auto& step : steps) {
      counts[i] = step[i];
      const std::vector<float> y = model.step(alone, counts);
      expected[i].insert(expected[i].end(), y.begin(), y.end());
    }
    EXPECT_EQ(found[i], expected[i]) << "sequence " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    forms, SequenceAttentionTest,
    testing::Values(Case{"plain", ""}, Case{"window", ", local_window_size = 50", 50},
                    Case{"softcap", ", softcap = 2.0, scale = 0.3"},
                    Case{"slopes", ", slopes = [0.5, 0.25, 0.1, 0.07, 0.03, 0.01]"},
                    Case{"smooth", ", smooth_softmax = true, local_window_size = 150", 150},
                    Case{"interleaved", ", rotary_interleaved = true"}, Case{"int8", "", 0, 1},
                    Case{"int8_scale_per_channel", ", local_window_size = 50", 50,
                         kKeyHeads* kSize},
                    Case{"int8_interleaved", ", rotary_interleaved = true", 0, kKeyHeads* kSize}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lathe
#endif
