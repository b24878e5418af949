// SPDX-License-Identifier: MIT
// Each call of the driver fails in turn: the error states the call and what to do, nothing is
// leaked, other sessions go on.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/parse.h"
#include "llm/model/generator.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/gpu/target.h"

namespace lathe::gpu {
namespace {

constexpr const char* kText = R"(
program "chain" stage imported {
  symbol n bound 0..*
  module @main(%x: f32[n, 3], %w: f32[3, 3]) {
    %a = matmul(%x, %w)
    %b = softmax(%a)
    %c = matmul(%b, %w)
    %d = softmax(%c)
    return %d as "d"
  }
})";

std::vector<Box> inputs() {
  std::vector<Box> out;
  for (int i = 0; i < 2; ++i) {
    Tensor tensor(ElementType::f32, {3, 3});
    float value = 0.3F;
    for (float& x : tensor.elements<float>()) value = x = value * 0.9F + 0.1F;
    out.push_back(Box{tensor});
  }
  return out;
}

// A target of its own, whose driver decides which call fails.
class GpuFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a card's calls do not fail on request";
    driver_ = make_host_driver();
    target_ = std::make_shared<GpuTarget>("gpu:host", driver_, 0, CodeStore::default_folder());
  }

  std::shared_ptr<const Plan> plan() const {
    return compile(parse_program(kText), {.target = target_});
  }

  // Runs `work` without a fault, then with a fault at call 1, 1 + stride, …: it throws an error of
  // the device, or it does without that call. `others` go on after each.
  template <class Work, class Others>
  void fail_each_call(int64_t stride, Work&& work, Others&& others) {
    work();
    const int64_t before = driver_->calls();
    work();
    const int64_t calls = driver_->calls() - before;
    int64_t thrown = 0;
    for (int64_t call = 1; call <= calls; call += stride) {
      SCOPED_TRACE(fmt::format("a fault at call {} of {}", call, calls));
      // Code that others hold but have not launched may still be loading.
      target_->gpu_device().code().wait_idle();
      const int64_t live = live_objects(*driver_);
      driver_->fail_at(call);
      try {
        work();
      } catch (const Error& error) {
        ++thrown;
        note(error);
      }
      driver_->fail_at(0);
      expect_live(live);
      ASSERT_FALSE(HasFailure());
      others();
    }
    EXPECT_GT(thrown, calls / stride / 2);
  }

  void note(const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory)
        << text;
    const size_t end = text.find(" failed, as a test requested: ");
    ASSERT_NE(end, std::string::npos) << text;
    EXPECT_NE(text.find(advice(error.kind()), end), std::string::npos) << text;
    const size_t begin = text.rfind(' ', end - 1) + 1;
    failed_.insert(text.substr(begin, end - begin));
  }

  // Threads that compile return what a failed session no longer needs.
  void expect_live(int64_t expected) const {
    constexpr int kTries = 2000;
    for (int i = 0; live_objects(*driver_) != expected && i < kTries; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(live_objects(*driver_), expected);
  }

  std::shared_ptr<Driver> driver_;
  std::shared_ptr<const GpuTarget> target_;
  std::set<std::string> failed_;  // names of calls
};

TEST_F(GpuFaults, OfASessionLeaveOthersUnharmed) {
  const std::vector<Box> given = inputs();
  Session other(plan());
  const Tensor expected = other.run(given)[0].tensor().clone();
  fail_each_call(
      1,
      [&] {
        Session session(plan());
        for (int run = 0; run < 4; ++run) session.run(given);
      },
      [&] {
        const Tensor found = other.run(given)[0].tensor();
        for (int64_t i = 0; i < expected.count(); ++i) {
          ASSERT_EQ(expected.as<float>()[i], found.as<float>()[i]);
        }
      });
  for (const char* call : {"allocate", "allocate_pinned", "commit", "copy", "launch",
                           "launch_graph", "make_stream", "reserve", "synchronize"}) {
    EXPECT_TRUE(failed_.contains(call)) << call;
  }
}

TEST_F(GpuFaults, OfTheFirstSessionLeaveTheNextUnharmed) {
  const std::vector<Box> given = inputs();
  const Tensor expected = Session(plan()).run(given)[0].tensor().clone();
  for (int64_t call = 1; !HasFailure(); ++call) {
    // A new device loads its code.
    SetUp();
    driver_->fail_at(call);
    try {
      Session session(plan());
      session.run(given);
    } catch (const Error& error) {
      note(error);
    }
    target_->gpu_device().code().wait_idle();
    const bool last = driver_->calls() < call;
    driver_->fail_at(0);
    Session session(plan());
    const Tensor found = session.run(given)[0].tensor();
    for (int64_t i = 0; i < expected.count(); ++i) {
      ASSERT_EQ(expected.as<float>()[i], found.as<float>()[i]) << "after a fault at call " << call;
    }
    if (last) break;
  }
  EXPECT_TRUE(failed_.contains("load"));
  EXPECT_TRUE(failed_.contains("function"));
}

// Each fault opens a model anew: TEST_EVERY_CALL has every call fail, as `make test-gpu-host` does.
int64_t stride_of_a_decoder() {
  if (environment_variable("TEST_EVERY_CALL")) return 1;
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return 17;
#endif
#endif
  return 7;
}

TEST_F(GpuFaults, OfADecoderLeaveOthersUnharmed) {
  const std::string folder = "../shared/models/zoo/llama/fp32";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const auto open = [&] {
    llm::DecoderOptions options;
    options.target = target_;
    options.page_slots = 4;
    return std::make_shared<llm::Decoder>(folder, options);
  };
  const auto generate = [](const std::shared_ptr<const llm::Decoder>& decoder) {
    llm::Generator generator(decoder);
    search::SearchOptions options;
    options.max_new_tokens = 4;
    generator.add(std::vector<llm::Token>{1, 5, 9}, options);
    while (generator.generate_next_token()) {
    }
    return generator.outputs(0)[0].tokens;
  };
  const auto decoder = open();
  const std::vector<llm::Token> expected = generate(decoder);
  fail_each_call(
      stride_of_a_decoder(), [&] { generate(open()); },
      [&] { ASSERT_EQ(generate(decoder), expected); });
}

}  // namespace
}  // namespace lathe::gpu
