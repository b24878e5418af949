// SPDX-License-Identifier: MIT
// A temporary folder of a test, removed with its content.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_map.h"

namespace lathe {

class TestFolder {
 public:
  TestFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    // The test's name makes the folder unique among concurrent test programs.
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("lathe-{}-{}-{}", test->test_suite_name(), test->name(),
                        static_cast<const void*>(this));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(std::string_view name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    write_file(path(name), content);
    return path(name);
  }
  void link(std::string_view target, std::string_view name) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(target, path_ / name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lathe
