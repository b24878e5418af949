// SPDX-License-Identifier: MIT
#include "base/file_map.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/folder.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

int64_t files_in(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(FileMap, MapsTheBytesOfAFile) {
  const TestFolder folder;
  const auto map = FileMap::open(folder.write("a.bin", std::string_view("ab\0c", 4)));
  EXPECT_EQ(map->text(), std::string_view("ab\0c", 4));
  EXPECT_EQ(map->bytes().size(), 4u);
  EXPECT_EQ(map->path(), folder.path("a.bin"));
}

TEST(FileMap, AnEmptyFileHasNoBytes) {
  const TestFolder folder;
  EXPECT_TRUE(FileMap::open(folder.write("empty", ""))->bytes().empty());
}

// Kilobytes of mappings of a file that are resident.
int64_t resident_of(const std::string& path) {
  std::ifstream lines("/proc/self/smaps");
  int64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find('-') < line.find(' ')) inside = line.ends_with(path);
    if (inside && line.starts_with("Rss:")) total += std::stoll(line.substr(4));
  }
  return total;
}

TEST(FileMap, ReleasedBytesLeaveMemoryAndStayReadable) {
  const TestFolder folder;
  constexpr size_t kBytes = size_t{4} << 20;
  const std::string path = folder.write("big", std::string(kBytes, 'x'));
  const auto map = FileMap::open(path);
  ASSERT_EQ(std::ranges::count(map->text(), 'x'), kBytes);
  EXPECT_EQ(resident_of(path), kBytes / 1024);
  release_mapped(map->bytes().subspan(0, kBytes / 2));
  EXPECT_EQ(resident_of(path), kBytes / 2048);
  release_mapped(map->bytes());
  EXPECT_EQ(resident_of(path), 0);
  EXPECT_EQ(std::ranges::count(map->text(), 'x'), kBytes);
}

TEST(FileMap, BytesReadFromTheFileDoNotBecomeResident) {
  const TestFolder folder;
  constexpr size_t kBytes = size_t{4} << 20;
  std::string text(kBytes, 'x');
  text[7] = text[kBytes - 1] = 'y';
  const std::string path = folder.write("big", text);
  const auto map = FileMap::open(path);
  release_mapped(map->bytes());  // checks of its beginning read a page
  std::string found(kBytes - 7, ' ');
  auto* to = reinterpret_cast<std::byte*>(found.data());
  read_mapped(map->bytes().subspan(7), to);
  EXPECT_EQ(found, text.substr(7));
  EXPECT_EQ(resident_of(path), 0);
  // Other memory is copied.
  read_mapped({reinterpret_cast<const std::byte*>(text.data()), 8}, to);
  EXPECT_EQ(found.substr(0, 8), "xxxxxxxy");
}

TEST(FileMap, ReadingAFileThatBecameShorterFails) {
  const TestFolder folder;
  const std::string path = folder.write("big", std::string(10000, 'x'));
  const auto map = FileMap::open(path);
  fs::resize_file(path, 9000);
  std::string found(10000, ' ');
  auto* to = reinterpret_cast<std::byte*>(found.data());
  map->read(map->bytes().first(9000), to);
  EXPECT_EQ(found, std::string(9000, 'x') + std::string(1000, ' '));
  EXPECT_EQ(error_of([&] { map->read(map->bytes(), to); }),
            fmt::format("Io: '{}' had 10000 bytes when it was opened and ends at 9000 now", path));
}

TEST(FileMap, APlaceIsTheSameInAllMapsOfOneVersionOfAFile) {
  const TestFolder folder;
  const std::string path = folder.write("a.bin", std::string(8192, 'a'));
  const auto one = FileMap::open(path);
  const auto other = FileMap::open(path);
  const auto place = [](const auto& map, size_t begin, size_t count) {
    return mapped_place(map->bytes().subspan(begin, count));
  };
  EXPECT_NE(place(one, 5, 10), "");
  EXPECT_EQ(place(one, 5, 10), place(other, 5, 10));
  EXPECT_NE(place(one, 5, 10), place(one, 6, 10));
  const auto copy = FileMap::open(folder.write("b.bin", std::string(8192, 'a')));
  EXPECT_NE(place(one, 5, 10), place(copy, 5, 10));
  write_file(path, std::string(8192, 'b'));
  EXPECT_NE(place(one, 5, 10), place(FileMap::open(path), 5, 10));
  // Other memory, and bytes that end after the map.
  const std::vector<std::byte> own(16);
  EXPECT_EQ(mapped_place(own), "");
  EXPECT_EQ(mapped_place({one->bytes().data() + 8190, 3}), "");
}

TEST(FileMap, OtherMemoryIsNotReleased) {
  const TestFolder folder;
  const auto map = FileMap::open(folder.write("a.bin", std::string(8192, 'a')));
  const std::vector<std::byte> own(1 << 16, std::byte{7});
  release_mapped(own);
  EXPECT_EQ(std::ranges::count(own, std::byte{7}), 1 << 16);
  release_mapped({map->bytes().data(), 0});
  release_mapped({});
}

TEST(FileMap, RefusesOtherKindsOfFilesWithoutBlocking) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { FileMap::open(folder.path("pipe")); }),
            "InvalidArgument: '" + folder.path("pipe") + "' is a pipe, expected a regular file");
  EXPECT_EQ(error_of([&] { FileMap::open(folder.path()); }),
            "InvalidArgument: '" + folder.path() + "' is a folder, expected a regular file");
  EXPECT_EQ(error_of([&] { FileMap::open("/dev/zero"); }),
            "InvalidArgument: '/dev/zero' is a device, expected a regular file");
}

TEST(FileMap, ErrorsContainTheName) {
  const TestFolder folder;
  EXPECT_EQ(error_of([&] { FileMap::open(folder.path("none")); }),
            "Io: cannot open '" + folder.path("none") + "': No such file or directory");
  EXPECT_EQ(error_of([] { FileMap::open(""); }),
            "InvalidArgument: '' is not a valid file name: it is empty or contains a zero byte");
  EXPECT_EQ(error_of([] { FileMap::open(std::string("a\0b", 3)); }),
            "InvalidArgument: 'a\\x00b' is not a valid file name: it is empty or contains a zero "
            "byte");
}

TEST(FileWriter, ReplacesAFileOnlyWhenCommitted) {
  const TestFolder folder;
  const std::string path = folder.write("a", "old");
  {
    FileWriter writer(path);
    writer.write("new");
    EXPECT_EQ(FileMap::open(path)->text(), "old");
    writer.commit();
  }
  EXPECT_EQ(FileMap::open(path)->text(), "new");
  {
    FileWriter abandoned(path);
    abandoned.write("half");
  }
  EXPECT_EQ(FileMap::open(path)->text(), "new");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(FileWriter, FollowsLinksAndKeepsPermissions) {
  const TestFolder folder;
  folder.write("target", "old");
  fs::permissions(folder.path("target"), fs::perms::owner_read | fs::perms::owner_write);
  folder.link("target", "link");
  write_file(folder.path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(FileMap::open(folder.path("target"))->text(), "new");
  EXPECT_EQ(fs::status(folder.path("target")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(FileWriter, AFullDiskIsAnIoError) {
  EXPECT_EQ(error_of([] { write_file("/dev/full", "x"); }),
            "Io: cannot write '/dev/full' after 0 bytes: No space left on device");
}

TEST(FileWriter, DevicesAreWrittenInPlace) {
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(FileWriter, FoldersAreRefused) {
  const TestFolder folder;
  EXPECT_EQ(
      error_of([&] { write_file(folder.path(), "x"); }),
      "InvalidArgument: cannot write '" + folder.path() + "': it is a folder, expected a file");
  EXPECT_EQ(error_of([&] { write_file(folder.path("none/a"), "x"); }),
            "Io: cannot create a file beside '" + folder.path("none/a") +
                "' after 0 bytes: No such file or directory");
}

TEST(Paths, AreSplitAndJoined) {
  EXPECT_EQ(parent_folder("a/b"), "a");
  EXPECT_EQ(parent_folder("a"), ".");
  EXPECT_EQ(parent_folder("/a"), "/");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/"));
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_FALSE(is_within("/", "/a"));
}

TEST(Paths, ALinkIsTheSameFileAsItsTarget) {
  const TestFolder folder;
  folder.write("a", "x");
  folder.write("b", "x");
  folder.link("a", "link");
  EXPECT_TRUE(is_same_file(folder.path("a"), folder.path("link")));
  EXPECT_FALSE(is_same_file(folder.path("a"), folder.path("b")));
  EXPECT_FALSE(is_same_file(folder.path("a"), folder.path("none")));
  EXPECT_EQ(real_path(folder.path("link")), real_path(folder.path("a")));
  EXPECT_TRUE(is_folder(folder.path()));
  EXPECT_FALSE(is_folder(folder.path("a")));
}

}  // namespace
}  // namespace lathe
