// SPDX-License-Identifier: MIT
// Compilers of other cards take every source that the tests of this program needed.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "base/os_environment.h"
#include "targets/gpu/code/code_store.h"
#include "tests/support/parallel.h"

namespace lathe::test {
namespace {

// All sources for one card of each vendor, a sample for the others, unless TEST_EVERY_CARD is set:
// "hip" has hipRTC compile for AMD's cards, the name of an architecture NVRTC or clang for it, all
// else both for every card. TEST_COMPILED names a folder that keeps which sources each compiler has
// compiled: it does not compile them again.
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
      std::cout << "skipped " << architecture << ": " << error.what() << std::endl;
      return;
    }
    std::vector<const gpu::Source*> chosen;
    int turn = 0;
    for (const auto& [text, source] : sources_) {
      if (turn++ % stride == 0) chosen.push_back(&source);
    }
    std::atomic<size_t> compiled = 0, known = 0;
    in_parallel(chosen.size(), [&](size_t i) {
      try {
        const std::string key = compiler->key(*chosen[i]);
        if (compiled_.read(key)) {
          ++known;
          return;
        }
        EXPECT_FALSE(compiler->compile(*chosen[i]).empty());
        compiled_.write(key, std::as_bytes(std::span(chosen[i]->name)));
        ++compiled;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what() << "\n" << chosen[i]->text;
      }
    });
    std::cout << compiler->id() << ": " << compiled.load() << " of " << sources_.size()
              << " sources compiled";
    if (known > 0) std::cout << ", " << known.load() << " before";
    std::cout << std::endl;
  }
  std::mutex mutex_;
  std::map<std::string, gpu::Source> sources_;
  gpu::DiskCache compiled_{environment_variable("TEST_COMPILED").value_or("")};
};

const auto* const kEveryCard = testing::AddGlobalTestEnvironment(new EveryCard);

}  // namespace
}  // namespace lathe::test
