// SPDX-License-Identifier: MIT
#include "import/checkpoint/files/gguf_split.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file_map.h"

namespace lathe::checkpoint {
namespace {

constexpr uint64_t kMaxParts = 99999;
constexpr std::string_view kTail = "-00001-of-00001.gguf";

std::string tail_of(uint64_t number, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

uint64_t count_of(const GgufFile& gguf) {
  const uint64_t count = gguf.integer("split.count").value_or(1);
  check(count <= kMaxParts, ErrorKind::invalid_model, "'split.count' is {}, expected at most {}",
        count, kMaxParts);
  return std::max<uint64_t>(count, 1);
}

// The part, from 1, that the end of the path names; 0: none of `count`.
uint64_t number_of(std::string_view path, uint64_t count) {
  if (path.size() <= kTail.size()) return 0;
  const std::string_view tail = path.substr(path.size() - kTail.size());
  uint64_t number = 0;
  std::from_chars(tail.data() + 1, tail.data() + 6, number);
  return number <= count && tail == tail_of(number, count) ? number : 0;
}

}  // namespace

void check_first_part(const GgufFile& gguf, const std::string& path) {
  const uint64_t count = count_of(gguf);
  if (count == 1) return;
  const uint64_t named = number_of(path, count);
  const auto stated = gguf.integer("split.no");
  const uint64_t number = stated ? std::min(*stated, count) + 1 : std::max<uint64_t>(named, 1);
  check(named > 0, ErrorKind::invalid_model,
        "the file is part {} of {} of a model, whose names end in {} and so on: {}", number, count,
        tail_of(1, count), number == 1 ? "rename it" : "open the first");
  check(named == number, ErrorKind::invalid_model,
        "the file is part {} of {} of a model, but its name ends in {}", number, count,
        tail_of(named, count));
  if (number == 1) return;
  const std::string first = path.substr(0, path.size() - kTail.size()) + tail_of(1, count);
  fail(ErrorKind::invalid_model, "the file is part {} of {} of a model: open the first, '{}'{}",
       number, count, escape(first), file_exists(first) ? "" : ", which is missing");
}

std::vector<std::string> later_parts(const GgufFile& gguf, const std::string& path) {
  check_first_part(gguf, path);
  const uint64_t count = count_of(gguf);
  std::vector<std::string> parts, missing;
  for (uint64_t number = 2; number <= count; ++number) {
    const std::string part = path.substr(0, path.size() - kTail.size()) + tail_of(number, count);
    (file_exists(part) ? parts : missing).push_back(part);
  }
  if (missing.size() == 1) {
    fail(ErrorKind::io, "the model has {} parts, of which '{}' is missing", count,
         escape(missing.front()));
  }
  check(missing.empty(), ErrorKind::io,
        "the model has {} parts, of which {} are missing, the first is '{}'", count, missing.size(),
        missing.empty() ? "" : escape(missing.front()));
  return parts;
}

void check_part(const GgufFile& gguf, uint64_t number, uint64_t count) {
  const uint64_t own = gguf.integer("split.no").value_or(number - 1);
  const uint64_t of = gguf.integer("split.count").value_or(count);
  check(own == number - 1 && of == count, ErrorKind::invalid_model,
        "'split.no' is {} and 'split.count' {}, expected {} and {}", own, of, number - 1, count);
}

}  // namespace lathe::checkpoint
