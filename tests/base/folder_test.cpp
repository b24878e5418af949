// SPDX-License-Identifier: MIT
#include "base/folder.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

TEST(Folder, NormalisesNamesOfFilesInMemory) {
  const Folder folder("", {{"./a//b.txt", MemoryFile::copy_of("inner")},
                           {"top.txt", MemoryFile::copy_of("outer")}});
  EXPECT_TRUE(folder.has("a/b.txt"));
  EXPECT_TRUE(folder.has("a/../top.txt"));
  EXPECT_FALSE(folder.has("b.txt"));
  EXPECT_EQ(folder.open("top.txt").text, "outer");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "top.txt"}));
  EXPECT_THROW(folder.open("absent.txt"), Error);
}

TEST(Folder, NormalisesNamesOfSubfolders) {
  const Folder folder(
      "", {{"a/b.txt", MemoryFile::copy_of("inner")}, {"ab.txt", MemoryFile::copy_of("outer")}});
  for (const char* name : {"a", "a/", "./a", "a/.", "c/../a"}) {
    EXPECT_EQ(folder.below(name).names(), std::vector<std::string>{"b.txt"}) << name;
  }
  for (const char* name : {"", ".", "./"}) {
    EXPECT_EQ(folder.below(name).names(), (std::vector<std::string>{"a", "ab.txt"})) << name;
  }
}

}  // namespace
}  // namespace lathe
