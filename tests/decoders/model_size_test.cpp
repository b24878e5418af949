// SPDX-License-Identifier: MIT
#include "llm/model/model_size.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "llm/model/decoder.h"

namespace lathe::llm {
namespace {

constexpr int64_t kGibi = int64_t{1} << 30;

template <class F>
std::string message(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return fmt::format("{}: {}", error_kind_info(error.kind()).name, error.message());
  }
  return "no error";
}

TEST(ModelSize, weights_and_one_token_must_lie_in_the_memory_that_is_available) {
  const ModelSize size = {.weight_bytes = 3 * kGibi, .encoder_bytes = kGibi, .row_bytes = kGibi};
  EXPECT_EQ(size.bytes_at(2), 6 * kGibi);
  const auto said = [&](int64_t limit, int64_t available) {
    return message([&] { check_memory(size, limit, available, "m"); });
  };
  EXPECT_EQ(said(0, 5 * kGibi), "no error");
  EXPECT_EQ(said(0, 0), "no error");  // a machine that does not say
  EXPECT_EQ(
      said(0, 5 * kGibi - 1),
      "OutOfMemory: one token's caches of 'm' take 1.0 GiB beside weights of 4.0 GiB, 5.0 GiB "
      "are available");
  EXPECT_EQ(
      said(0, 4 * kGibi - 1),
      "OutOfMemory: the weights of 'm' take 4.0 GiB, 4.0 GiB are available: take a smaller or "
      "more coarsely quantised model");
  EXPECT_EQ(said(kGibi - 1, 9 * kGibi),
            "OutOfMemory: one token's caches of 'm' take 1.0 GiB, the memory limit is 1024.0 MiB");
}

TEST(ModelSize, sizes_beyond_all_numbers_saturate) {
  const ModelSize size = {.weight_bytes = INT64_MAX, .encoder_bytes = 1, .row_bytes = INT64_MAX};
  EXPECT_EQ(size.bytes_at(INT64_MAX), INT64_MAX);
}

TEST(ModelSize, a_request_beyond_the_machine_is_refused) {
  const Decoder decoder("examples/counting");
  decoder.check_room(1000, 0, 0);
  const std::string said = message([&] { decoder.check_room(int64_t{1} << 50, 0, 2048); });
  EXPECT_TRUE(
      said.starts_with("OutOfMemory: 1125899906842624 tokens take 131072.0 TiB of caches (128 "
                       "bytes a token); beside "
                       "weights of 5.0 KiB and 2.0 KiB of other sequences there is room for "))
      << said;
}

}  // namespace
}  // namespace lathe::llm
