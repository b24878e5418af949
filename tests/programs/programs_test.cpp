// SPDX-License-Identifier: MIT
// One test per `run` row of tests/programs/*.test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/op_runner.h"

namespace lathe::test {
namespace {

std::vector<OpRow> all_rows() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/programs")) {
    if (entry.path().extension() == ".test") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<OpRow> rows;
  for (const std::string& file : files) {
    for (OpRow& row : read_op_rows(file)) rows.push_back(std::move(row));
  }
  return rows;
}

class Programs : public testing::TestWithParam<OpRow> {};

TEST_P(Programs, GiveTheExpectedResultsAtEveryStage) { run_op_row(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(all_rows()), [](const auto& test) {
  return std::filesystem::path(test.param.file).stem().string() + "_line_" +
         std::to_string(test.param.line);
});

}  // namespace
}  // namespace lathe::test
