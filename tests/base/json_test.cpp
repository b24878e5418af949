// SPDX-License-Identifier: MIT
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

std::string error_of(std::string_view text, size_t max_bytes = 0, int max_levels = 64) {
  try {
    static_cast<void>(parse_json(text, "the text", max_bytes, max_levels));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    return error.message();
  }
  return "";
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

TEST(ParseJson, BoundsTheLevelsOfBracketsOutsideOfStrings) {
  EXPECT_EQ(error_of(repeated("[", 64) + repeated("]", 64)), "");
  EXPECT_EQ(error_of(repeated("[", 65) + repeated("]", 65)),
            "the text is nested deeper than 64 levels");
  EXPECT_EQ(error_of(R"({"a": {"b": [{}]}})", 0, 4), "");
  EXPECT_EQ(error_of(R"({"a": {"b": [{}]}})", 0, 3), "the text is nested deeper than 3 levels");
  EXPECT_EQ(error_of(R"(["[[[[", "\"[[[[", "\\", [1]])", 0, 2), "");
  EXPECT_EQ(error_of(R"([[1], [2], [3], {"a": 4}])", 0, 2), "");
  EXPECT_EQ(error_of("[[[", 0, 3),
            "the text is not valid JSON: unexpected end of the text at line 1, column 4");
}

TEST(ParseJson, BoundsValuesByTheLargestText) {
  EXPECT_EQ(error_of("[1, 2, 3, 4]", 64), "");
  EXPECT_EQ(error_of("[1, 2, 3, 4, 5]", 64), "the text has 5 values, expected at most 4");
  EXPECT_EQ(error_of(R"(["1, 2, 3, 4, 5", 6])", 64), "");
  EXPECT_EQ(error_of(repeated(" ", 65) + "1", 64), "the text has 66 bytes, expected at most 64");
}

TEST(ParseJson, TakesLinearTimeForObjectsOfOneParent) {
  constexpr size_t kObjects = 1'000'000;
  const nlohmann::json list = parse_json("[" + repeated("{},", kObjects) + "{}]", "the text");
  EXPECT_EQ(list.size(), kObjects + 1);
}

}  // namespace
}  // namespace lathe
