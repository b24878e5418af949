// SPDX-License-Identifier: MIT
#include "llm/tokenizer/split_behavior.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::tokenizer {
namespace {

struct Segment {
  Range range;
  bool match;
};

// Lists the matches and the text between them, in order.
void cut(uint32_t size, const std::vector<Range>& matches, bool invert,
         std::vector<Segment>& segments) {
  uint32_t at = 0;
  for (const Range match : matches) {
    if (at != match.begin) segments.push_back({{at, match.begin}, invert});
    segments.push_back({match, !invert});
    at = match.end;
  }
  if (at != size) segments.push_back({{at, size}, invert});
}

// Joins each segment to the previous one in the direction if join(match, previous match) is true.
template <class It, class Join, class Extend>
void fold(It begin, It end, std::vector<Range>& out, Join&& join, Extend&& extend) {
  bool previous = false;
  const size_t first = out.size();
  for (It it = begin; it != end; ++it) {
    if (join(it->match, previous) && out.size() > first)
      extend(out.back(), it->range);
    else
      out.push_back(it->range);
    previous = it->match;
  }
}

}  // namespace

SplitBehavior read_behavior(std::string_view name, std::string_view where) {
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  fail(ErrorKind::invalid_model,
       "{}: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found "
       "'{}'",
       where, escape(name));
}

void add_split(Range whole, const std::vector<Range>& matches, SplitBehavior behavior, bool invert,
               std::vector<Range>& pieces) {
  const auto add = [&](uint32_t begin, uint32_t end) {
    if (begin < end) pieces.push_back({whole.begin + begin, whole.begin + end});
  };
  if (behavior == SplitBehavior::isolated || behavior == SplitBehavior::removed) {
    const bool keep_matches = behavior == SplitBehavior::isolated || invert;
    const bool keep_rest = behavior == SplitBehavior::isolated || !invert;
    uint32_t at = 0;
    for (const Range match : matches) {
      if (keep_rest) add(at, match.begin);
      if (keep_matches) add(match.begin, match.end);
      at = match.end;
    }
    if (keep_rest) add(at, whole.size());
    return;
  }
  thread_local std::vector<Segment> segments;
  thread_local std::vector<Range> joined;
  segments.clear();
  joined.clear();
  cut(whole.size(), matches, invert, segments);
  const auto extend_end = [](Range& last, Range next) { last.end = next.end; };
  const auto extend_begin = [](Range& last, Range next) { last.begin = next.begin; };
  const auto is_new_match = [](bool match, bool previous) { return match && !previous; };
  if (behavior == SplitBehavior::contiguous) {
    fold(
        segments.begin(), segments.end(), joined,
        [](bool match, bool previous) { return match == previous; }, extend_end);
  } else if (behavior == SplitBehavior::merged_with_previous) {
    fold(segments.begin(), segments.end(), joined, is_new_match, extend_end);
  } else {
    fold(segments.rbegin(), segments.rend(), joined, is_new_match, extend_begin);
    std::reverse(joined.begin(), joined.end());
  }
  for (const Range range : joined) add(range.begin, range.end);
}

}  // namespace lathe::tokenizer
