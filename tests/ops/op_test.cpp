// SPDX-License-Identifier: MIT
// One test per row of tests/ops/*.test. `ops_tests --file tests/ops/relu.test:12` runs one row, and
// without ":12" one file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"
#include "ir/op.h"
#include "tests/support/op_runner.h"

namespace lathe::test {
namespace {

class RowTest : public testing::Test {
 public:
  explicit RowTest(OpRow row) : row_(std::move(row)) {}
  void TestBody() override {
    run_op_row(row_);
    if (HasFailure()) {
      std::cerr << "rerun: ops_tests --file " << row_.file << ":" << row_.line << "\n";
    }
  }

 private:
  OpRow row_;
};

// Converts the sentence to a test name: other characters become one '_'.
std::string name_of(const std::string& sentence) {
  std::string name;
  for (const char c : sentence) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (name.ends_with('_')) name.pop_back();
  return name;
}

void register_file(const std::string& file, int line) {
  const std::string suite = std::filesystem::path(file).stem().string();
  std::map<std::string, int> taken;
  for (OpRow& row : read_op_rows(file)) {
    std::string name = name_of(row.sentence);
    if (const int number = ++taken[name]; number > 1) name += fmt::format("_{}", number);
    if (line != 0 && row.line != line) continue;
    testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, row.file.c_str(), row.line,
                          [row]() -> testing::Test* { return new RowTest(row); });
  }
}

void register_rows(std::string_view selected) {
  if (!selected.empty()) {
    const size_t colon = selected.find(':');
    const std::string line(colon == std::string_view::npos ? "0" : selected.substr(colon + 1));
    register_file(std::string(selected.substr(0, colon)), std::stoi(line));
    return;
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/ops")) {
    if (entry.path().extension() == ".test") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) register_file(file, 0);
}

}  // namespace
}  // namespace lathe::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const bool one = argc == 3 && std::string_view(argv[1]) == "--file";
    if (argc > 1 && !one) {
      std::cerr << "unknown argument '" << argv[1] << "', expected --file FILE[:LINE]\n";
      return 2;
    }
    const std::string selected = one ? argv[2] : "";
    if (one) {
      const std::string file = selected.substr(0, selected.find(':'));
      testing::GTEST_FLAG(filter) = std::filesystem::path(file).stem().string() + ".*";
    }
    lathe::test::register_rows(selected);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  const int status = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::cerr << "error: no test selected\n";
    return 1;
  }
  return status;
}
