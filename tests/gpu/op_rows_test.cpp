// SPDX-License-Identifier: MIT
// Every row of tests/ops on `gpu:host`, in other orders of threads and widths of waves too.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/gpu_host_target.h"
#include "tests/support/op_runner.h"

namespace lathe::test {
namespace {

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
