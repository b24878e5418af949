// SPDX-License-Identifier: MIT
#include "import/compiled/container.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/thread_pool.h"
#include "tests/support/errors.h"

namespace lathe {
namespace {

// Three sections; the last one spans blocks.
std::string written(size_t large) {
  std::string out;
  ContainerWriter writer([&](std::string_view bytes) { out += bytes; });
  writer.begin("text");
  writer.write("some ");
  writer.write("text");
  writer.begin("empty");
  writer.begin("large", 4096);
  std::string bytes(large, '\0');
  for (size_t i = 0; i < large; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  writer.write(bytes);
  writer.align(64);
  writer.finish();
  return out;
}

Container opened(const std::string& bytes) { return {"c.lathe", bytes, nullptr}; }

// Opens and reads everything.
void read_all(const std::string& bytes) {
  const Container container = opened(bytes);
  for (const auto& [name, section] : container.sections()) container.read(name);
}

TEST(Container, ReadsWhatWasWritten) {
  const std::string bytes = written(3 * kContainerBlock / 2);
  const Container container = opened(bytes);
  EXPECT_EQ(container.sections().size(), 3);
  EXPECT_EQ(container.read("text"), "some text");
  EXPECT_EQ(container.read("empty"), "");
  const std::string_view large = container.read("large");
  ASSERT_EQ(large.size(), 3 * kContainerBlock / 2);
  EXPECT_EQ(container.find("large").offset % 4096, 0);
  EXPECT_EQ(large[1000], static_cast<char>(1000 * 7 + 1000 / 251));
  EXPECT_EQ(container.minor(), kContainerMinor);
  EXPECT_EQ(error_of([&] { container.read("other"); }),
            "InvalidModel: 'c.lathe' has no section 'other'");
}

TEST(Container, FindsEveryFlippedByteThatIsRead) {
  const std::string bytes = written(3000);
  const std::string text = "some text";
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {1, 0x80}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_NE(error_of([&] { read_all(damaged); }), "no error") << "byte " << i;
    }
  }
}

TEST(Container, FindsEveryCut) {
  const std::string bytes = written(3000);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of([&] { read_all(bytes.substr(0, size)); }), "no error") << size << " bytes";
  }
  EXPECT_NE(error_of([&] { read_all(bytes + '\0'); }), "no error");
}

TEST(Container, ChecksBlocksBeforeTheyAreRead) {
  std::string bytes = written(3 * kContainerBlock);
  bytes[2 * kContainerBlock + 5] ^= 4;
  const Container container = opened(bytes);
  EXPECT_EQ(container.read("text"), "some text");
  container.check_blocks(0, 2 * kContainerBlock);
  EXPECT_EQ(error_of([&] { container.read("large"); }).substr(0, 66),
            "InvalidModel: 'c.lathe' is damaged: bytes 8388608 to 12582912 have");
}

TEST(Container, ChecksRequestedBlocksOnce) {
  std::string bytes = written(3 * kContainerBlock);
  ThreadPool pool(2);
  {
    const Container container = opened(bytes);
    container.request_check(0, bytes.size() / 2);
    container.check_requested(&pool);
    bytes[kContainerBlock + 5] ^= 4;  // checked before
    container.request_check(0, bytes.size() / 2);
    container.check_requested(nullptr);
  }
  const Container container = opened(bytes);
  container.check_requested(&pool);  // nothing was requested
  container.request_check(kContainerBlock, 1);
  EXPECT_NE(error_of([&] { container.check_requested(&pool); }), "no error");
  EXPECT_NE(error_of([&] { container.check_requested(&pool); }), "no error");
}

TEST(Container, RefusesLaterVersions) {
  std::string bytes = written(10);
  // The footer: version before its checksum and the magic.
  const uint32_t minor = kContainerMinor + 1;
  std::memcpy(bytes.data() + bytes.size() - 64 + 36, &minor, 4);
  EXPECT_NE(error_of([&] { opened(bytes); }), "no error");
}

TEST(Container, IsSameForEqualContent) {
  const std::string a = written(100), b = written(100), c = written(101);
  EXPECT_TRUE(opened(a).is_same(opened(b)));
  EXPECT_FALSE(opened(a).is_same(opened(c)));
}

}  // namespace
}  // namespace lathe
