// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unicode/code_set.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer::unicode {
namespace {

constexpr NamedTable kTables[] = {
#include "llm/tokenizer/unicode/properties.inc"
};

std::optional<std::string_view> table(std::string_view name) {
  for (const NamedTable& table : kTables) {
    if (table.name != name) continue;
    if (table.numbers.starts_with('='))
      name = table.numbers.substr(1);
    else
      return table.numbers;
  }
  // An alias may follow its name.
  for (const NamedTable& table : kTables) {
    if (table.name == name && !table.numbers.starts_with('=')) return table.numbers;
  }
  return std::nullopt;
}

using Group = std::vector<char32_t>;

// Groups of characters that are equal if case is ignored.
const std::vector<Group>& fold_groups() {
  static const std::vector<Group> groups = [] {
    std::vector<Group> all;
    int32_t previous = 0;
    for (NumberReader reader(*table("fold")); !reader.at_end();) {
      Group& group = all.emplace_back(reader.next());
      previous += reader.next_signed();
      group[0] = static_cast<char32_t>(previous);
      for (size_t i = 1; i < group.size(); ++i) group[i] = group[i - 1] + reader.next();
    }
    return all;
  }();
  return groups;
}

CodeSet normalised(CodeSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  size_t out = 0;
  for (const CodeRange range : set) {
    if (out > 0 && range.first <= set[out - 1].last + 1) {
      set[out - 1].last = std::max(set[out - 1].last, range.last);
    } else {
      set[out++] = range;
    }
  }
  set.resize(out);
  return set;
}

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return result;
}

std::optional<CodeSet> read_named(const std::string& name) {
  const std::optional<std::string_view> numbers = table(name);
  if (!numbers) return std::nullopt;
  return read_set(*numbers);
}

}  // namespace

CodeSet unite(const CodeSet& a, const CodeSet& b) {
  CodeSet both = a;
  both.insert(both.end(), b.begin(), b.end());
  return normalised(std::move(both));
}

CodeSet complement(const CodeSet& set) {
  CodeSet result;
  char32_t next = 0;
  for (const auto [first, last] : set) {
    if (first > next) result.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLast) result.push_back({next, kLast});
  return result;
}

CodeSet intersect(const CodeSet& a, const CodeSet& b) {
  CodeSet result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t first = std::max(a[i].first, b[j].first);
    const char32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) result.push_back({first, last});
    ++(a[i].last < b[j].last ? i : j);
  }
  return result;
}

bool contains(const CodeSet& set, char32_t character) {
  const auto it = std::upper_bound(set.begin(), set.end(), character,
                                   [](char32_t c, const CodeRange& r) { return c < r.first; });
  return it != set.begin() && character <= std::prev(it)->last;
}

std::optional<CodeSet> property(std::string_view name) {
  const std::string key = plain(name);
  if (key == "fold" || key == "foldseveral" || key.starts_with('[')) return std::nullopt;
  return read_named(key);
}

bool names_word(std::string_view name) { return plain(name) == "word"; }

std::optional<CodeSet> posix_class(std::string_view name) { return read_named("[" + plain(name)); }

CodeSet escape_class(char letter, bool in_brackets) {
  return *read_named(std::string(in_brackets ? "[\\" : "\\") + letter);
}

CodeSet close_over_case(const CodeSet& set) {
  static const auto closed_of = [] {
    std::unordered_map<char32_t, CodeSet> all;
    for (const Group& group : fold_groups()) {
      for (const char32_t c : group) {
        CodeSet& closed = all[c];
        for (const char32_t other : group) closed.push_back({other, other});
        closed = normalised(std::move(closed));
      }
    }
    return all;
  }();
  if (set.size() == 1 && set[0].first == set[0].last) {  // the common case
    const auto it = closed_of.find(set[0].first);
    return it == closed_of.end() ? set : it->second;
  }
  CodeSet added;
  for (const Group& group : fold_groups()) {
    const auto in = [&](char32_t c) { return contains(set, c); };
    if (std::none_of(group.begin(), group.end(), in)) continue;
    for (const char32_t c : group) added.push_back({c, c});
  }
  return added.empty() ? set : unite(set, added);
}

const std::vector<std::pair<char32_t, std::u32string>>& several_folds() {
  static const auto folds = [] {
    std::vector<std::pair<char32_t, std::u32string>> all;
    for (NumberReader reader(*table("fold_several")); !reader.at_end();) {
      auto& [character, folded] = all.emplace_back();
      character = reader.next();
      folded.resize(reader.next());
      for (char32_t& c : folded) c = reader.next();
    }
    return all;
  }();
  return folds;
}

}  // namespace lathe::tokenizer::unicode
