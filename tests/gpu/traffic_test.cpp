// SPDX-License-Identifier: MIT
// What kernels fetch at the shapes of Llama-3.1-8B: whole sectors of what a block needs, no
// conflicts of shared memory's banks. Some blocks of each launch run, as on a device of 132
// multiprocessors.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/os_environment.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/llama_kernels.h"
#include "tests/support/sanitized.h"

namespace lathe::test {
namespace {

// What the launches of a program touch; inputs are zeros but for those of `given`.
std::map<std::string, gpu::Traffic> traffic_of(const std::string& text,
                                               const std::map<size_t, Box>& given = {}) {
  const std::shared_ptr<gpu::Driver> driver =
      gpu::make_host_driver({.count = true, .multiprocessors = 132, .most_blocks = 8});
  const auto target =
      std::make_shared<GpuTarget>("gpu:host", driver, 0, gpu::CodeStore::default_folder());
  Session session(compile(parse_program(text), {.target = target}));
  std::vector<Box> inputs;
  for (const auto& parameter : session.plan().program->main().parameters()) {
    if (const auto at = given.find(inputs.size()); at != given.end()) {
      inputs.push_back(at->second);
      continue;
    }
    Dims dims;
    for (const Dim& dim : *parameter->type().dims) dims.push_back(*dim.constant());
    Tensor tensor(parameter->type().element, dims);
    std::memset(tensor.data(), 0, static_cast<size_t>(bytes_for(tensor.type(), tensor.count())));
    inputs.push_back(Box{tensor});
  }
  session.run(inputs);
  return gpu::traffic(*driver);
}

void print(const std::string& name, const std::string& kernel, const gpu::Traffic& t) {
  fmt::print("{:<28} {:<20} {:8.3f} MB, fetched {:.3f}, by blocks {:6.2f}, ways {:.3f}\n", name,
             kernel, static_cast<double>(t.distinct_bytes) / 1e6, t.fetched(), t.shared_by(),
             t.ways());
}

const std::set<std::string> kUseSharedMemory{"gemm", "n_bits", "sequence_attention"};

TEST(GpuTraffic, KernelsFetchWhatTheyNeed) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  if (kSanitized) GTEST_SKIP() << "what kernels fetch is the same without sanitizers";
  for (const KernelProgram& row : llama_kernels()) {
    bool judged = row.printed_only;
    for (const auto& [kernel, traffic] : traffic_of(row.program, row.given)) {
      print(row.name, kernel, traffic);
      if (row.printed_only || (!row.kernel.empty() && kernel != row.kernel)) continue;
      judged = true;
      EXPECT_GT(traffic.distinct_bytes, 0) << row.name << ": " << kernel;
      EXPECT_GT(traffic.sectors, 0) << row.name << ": " << kernel;
      if (kUseSharedMemory.contains(kernel)) {
        EXPECT_GT(traffic.shared_passes, 0) << row.name << ": " << kernel;
      }
      EXPECT_LE(traffic.fetched(), 1.05) << row.name << ": " << kernel;
      if (!row.fragments) EXPECT_LE(traffic.ways(), 1.1) << row.name << ": " << kernel;
    }
    EXPECT_TRUE(judged) << row.name << ": no launch of " << row.kernel;
  }
}

}  // namespace
}  // namespace lathe::test
