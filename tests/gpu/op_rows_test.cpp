// SPDX-License-Identifier: MIT
// Every row of tests/ops on `gpu:host`, in other orders of threads and widths of waves too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "targets/gpu/code/compiler.h"
#include "targets/gpu/target.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/op_runner.h"
#include "tests/support/parallel.h"

namespace lathe::test {
namespace {

// Afterwards, compilers of other cards take every source that the rows needed: all for one card of
// each vendor, the others for a sample, unless TEST_EVERY_CARD is set: "hip" has hipRTC compile for
// AMD's cards, the name of an architecture NVRTC or clang for it, all else both for every card.
class EveryCard final : public testing::Environment {
 public:
  void SetUp() override {
    gpu::CodeStore::watch([this](const gpu::Source& source) {
      const std::lock_guard lock(mutex_);
      sources_.emplace(source.text, source);
    });
  }
  void TearDown() override {
    gpu::CodeStore::watch(nullptr);
    const std::string every = environment_variable("TEST_EVERY_CARD").value_or("");
    for (const auto& [vendor, architecture, stride] : {std::tuple(gpu::Vendor::cuda, "sm_90", 1),
                                                       {gpu::Vendor::cuda, "sm_80", 16},
                                                       {gpu::Vendor::cuda, "sm_120", 16},
                                                       {gpu::Vendor::hip, "gfx90a", 16},
                                                       {gpu::Vendor::hip, "gfx942", 4},
                                                       {gpu::Vendor::hip, "gfx1100", 16}}) {
      if (every == "hip" && vendor != gpu::Vendor::hip) continue;
      const bool one = every.starts_with("sm_") || every.starts_with("gfx");
      if (one && every != architecture) continue;
      compile(vendor, architecture, every.empty() ? stride : 1, every == "hip");
    }
  }

 private:
  void compile(gpu::Vendor vendor, const std::string& architecture, int stride, bool own) {
    std::unique_ptr<gpu::Compiler> compiler;
    try {
      compiler = own ? gpu::make_compiler(vendor, architecture)
                     : gpu::make_offline_compiler(vendor, architecture);
    } catch (const Error& error) {
      EXPECT_FALSE(own) << error.what();
      std::cout << "skipped " << architecture << ": " << error.what() << "\n";
      return;
    }
    std::vector<const gpu::Source*> chosen;
    int turn = 0;
    for (const auto& [text, source] : sources_) {
      if (turn++ % stride == 0) chosen.push_back(&source);
    }
    std::atomic<size_t> compiled = 0;
    in_parallel(chosen.size(), [&](size_t i) {
      try {
        EXPECT_FALSE(compiler->compile(*chosen[i]).empty());
        ++compiled;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what() << "\n" << chosen[i]->text;
      }
    });
    std::cout << compiler->id() << ": " << compiled.load() << " of " << sources_.size()
              << " sources compiled\n";
  }
  std::mutex mutex_;
  std::map<std::string, gpu::Source> sources_;
};

const auto* const kEveryCard = testing::AddGlobalTestEnvironment(new EveryCard);

class GpuRows : public testing::TestWithParam<std::string> {};

TEST_P(GpuRows, GiveTheExpectedResults) {
  const std::vector<std::shared_ptr<const Target>> targets = gpu_host_targets();
  size_t turn = 0;
  for (const OpRow& row : read_op_rows("tests/ops/" + GetParam() + ".test")) {
    SCOPED_TRACE(fmt::format("{}:{}", row.file, row.line));
    run_op_row_on(row, targets[turn++ % targets.size()]);
  }
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("tests/ops")) {
    if (entry.path().extension() == ".test") out.push_back(entry.path().stem().string());
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, GpuRows, testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lathe::test
