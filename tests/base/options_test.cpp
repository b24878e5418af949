// SPDX-License-Identifier: MIT
#include "base/options.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file_map.h"
#include "tests/support/errors.h"

namespace lathe {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

std::string warning_of(const Variables& variables) {
  std::vector<std::string> warnings;
  Options::from_variables(variables, warnings);
  return warnings.size() == 1 ? warnings[0] : fmt::format("{} warnings", warnings.size());
}

std::string variable_error(const std::string& name, const std::string& value) {
  return error_of([&] {
    std::vector<std::string> warnings;
    Options::from_variables(Variables{{name, value}}, warnings);
  });
}

TEST(Options, EveryOptionHasAValueOfItsType) {
  const Options options;
  std::set<std::string_view> names;
  for (const OptionInfo& option : option_table()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_EQ(options.text(option.name), option.fallback);
    EXPECT_EQ(options.origin(option.name), "");
    EXPECT_TRUE(option.doc.ends_with(".")) << option.name;
  }
  EXPECT_LT(names.size(), 30u);
  EXPECT_EQ(error_of([&] { static_cast<void>(options.text("thread")); }),
            "Internal: unknown option 'thread'");
}

TEST(Options, VariablesSetOptionsAndFlagsOverrideThem) {
  std::vector<std::string> warnings;
  Options options = Options::from_variables(Variables{{"LATHE_MEMORY_LIMIT", "1.5K"},
                                                      {"LATHE_ROUND_TRIP", "yes"},
                                                      {"LATHE_THREADS", "3"},
                                                      {"LATHE_TIMEOUT", "2.5"}},
                                            warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(options.integer("memory-limit"), 1536);
  EXPECT_TRUE(options.boolean("round-trip"));
  EXPECT_EQ(options.number("timeout"), 2.5);
  EXPECT_EQ(options.origin("threads"), "LATHE_THREADS");
  options.set("threads", "5", "--threads");
  EXPECT_EQ(options.integer("threads"), 5);
  EXPECT_EQ(options.origin("threads"), "--threads");
}

TEST(Options, ErrorsOfInvalidValuesNameTheVariable) {
  EXPECT_EQ(variable_error("LATHE_THREADS", "four"),
            "InvalidArgument: LATHE_THREADS is 'four', expected an integer from 0 to 1024");
  EXPECT_EQ(variable_error("LATHE_THREADS", "-1"),
            "InvalidArgument: LATHE_THREADS is '-1', expected an integer from 0 to 1024");
  EXPECT_EQ(variable_error("LATHE_THREADS", "99999999999999999999"),
            "InvalidArgument: LATHE_THREADS is '99999999999999999999', expected an integer "
            "from 0 to 1024");
  EXPECT_EQ(variable_error("LATHE_TIMEOUT", "nan"),
            "InvalidArgument: LATHE_TIMEOUT is 'nan', expected a number from 0 to 1000000000");
  EXPECT_EQ(variable_error("LATHE_ROUND_TRIP", "maybe"),
            "InvalidArgument: LATHE_ROUND_TRIP is 'maybe', expected true or false");
  EXPECT_EQ(variable_error("LATHE_MEMORY_LIMIT", "12 MB"),
            "InvalidArgument: LATHE_MEMORY_LIMIT is '12 MB', expected bytes such as 4096, 512M or "
            "4G");
  EXPECT_EQ(variable_error("LATHE_TARGET", ""),
            "InvalidArgument: LATHE_TARGET is empty, expected a string");
}

TEST(Options, AnUnknownVariableWarnsWithTheClosestName) {
  EXPECT_EQ(warning_of({{"LATHE_THREAD", "4"}}),
            "ignored unknown variable LATHE_THREAD (did you mean 'LATHE_THREADS'?)");
  EXPECT_EQ(warning_of({{"LATHE_SOMETHING_ELSE", "4"}}),
            "ignored unknown variable LATHE_SOMETHING_ELSE");
}

TEST(Options, BytesHaveUnits) {
  EXPECT_EQ(parse_bytes("0", "x"), 0);
  EXPECT_EQ(parse_bytes("4096", "x"), 4096);
  EXPECT_EQ(parse_bytes("2G", "x"), int64_t{2} << 30);
  EXPECT_EQ(error_of([] { parse_bytes("99999999999T", "x"); }),
            "InvalidArgument: x is '99999999999T', expected bytes such as 4096, 512M or 4G");
}

TEST(Options, TheDocumentIsUpToDate) {
  EXPECT_EQ(FileMap::open("docs/options.md")->text(), options_markdown())
      << "run: build/release/bin/lathe doctor --options-markdown > docs/options.md";
}

}  // namespace
}  // namespace lathe
