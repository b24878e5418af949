// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "llm/model/packed_step.h"
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
  return parse_program(fmt::format(R"(program "rows" stage imported {{
  symbol s bound 1..*
  module @main(%q: f32[1, s, {}], %cos: f32[{}, 8], %sin: f32[{}, 8], %ks: f32[{}], %vs: f32[{}]) {{
    %y = sequence_attention(%q, _, _, %cos, %sin{}) {{num_heads = {}, kv_num_heads = {}, do_rotary = true, key_state = "keys", value_state = "values"{}}}
    return %y as "y"
  }}
}})",
                                   kColumns, kRows, kRows, p.scales, p.scales,
                                   p.scales > 0 ? ", _, _, %ks, %vs" : "", kHeads, kKeyHeads,
                                   p.attributes));
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

  // Tokens [first, first + count) of each sequence's own inputs.
  std::vector<float> step(std::vector<llm::Sequence>& sequences, std::span<const int64_t> counts) {
    llm::PackedStep::Tables tables;
    llm::PackedStep step(*layout_, tables);
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
    RunOptions options;
    options.step = &step;
    const std::vector<Box> results = session_.run(
        std::vector<Box>{Box{q}, Box{cos_}, Box{sin_}, Box{scales_}, Box{scales_}}, options);
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
  const Kernel& kernel = *model.plan().modules.front().launches.front().kernel;
  EXPECT_EQ(kernel.name(), "cpu.sequence_attention");
  EXPECT_NE(kernel.detail().find("may fall back to ref if the elements of a head are not "
                                 "contiguous or the page size is not a power of two"),
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
                    Case{"interleaved", ", rotary_interleaved = true"},
                    Case{"int8", ", cache_type = i8", 0, 1},
                    Case{"int8_scale_per_channel", ", cache_type = i8, local_window_size = 50", 50,
                         kKeyHeads* kSize},
                    Case{"int8_interleaved", ", cache_type = i8, rotary_interleaved = true", 0,
                         kKeyHeads* kSize}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lathe
#endif
