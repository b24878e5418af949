// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lathe::test {

// A path in the folder of large test data: LATHE_TEST_DATA, by default the folder `shared` beside
// the repository. nullopt if it does not exist: the test is skipped.
inline std::optional<std::filesystem::path> test_data(std::string_view path) {
  const char* given = std::getenv("LATHE_TEST_DATA");
  const std::filesystem::path root = given != nullptr ? given : "../shared";
  if (!std::filesystem::exists(root / path)) return std::nullopt;
  return root / path;
}

}  // namespace lathe::test
