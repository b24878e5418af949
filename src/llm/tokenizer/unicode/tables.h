// SPDX-License-Identifier: MIT
// Reads the written tables into lookup structures.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace lathe::tokenizer::unicode {

struct CodeRange {
  char32_t first;
  char32_t last;
};
// Ascending, disjoint and not touching.
using CodeSet = std::vector<CodeRange>;

// Reads the numbers of one written table.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ == text_.size(); }
  uint32_t next();
  int32_t next_signed();

 private:
  std::string_view text_;
  size_t at_ = 0;
};

struct NamedTable {
  std::string_view name;
  std::string_view numbers;  // or "=name" of an equal table
};

CodeSet read_set(std::string_view numbers);

// A value for each code point; equal blocks of 256 are shared.
template <class T>
class TwoStage {
 public:
  static constexpr size_t kBlocks = 0x110000 >> 8;

  T operator[](char32_t c) const { return values_[first_[c >> 8] << 8 | (c & 0xFF)]; }

  // Code points from `first` up to the next run.
  struct Run {
    char32_t first;
    T value;
  };
  // Builds from sorted runs that begin at 0. Expands only blocks in which the value changes.
  explicit TwoStage(const std::vector<Run>& runs) {
    std::map<T, uint32_t> uniform;
    const auto add_block = [&] {
      values_.resize(values_.size() + 256);
      return static_cast<uint32_t>(values_.size() / 256 - 1);
    };
    size_t run = 0;
    for (size_t block = 0; block < kBlocks; ++block) {
      const char32_t begin = static_cast<char32_t>(block << 8), end = begin + 256;
      while (run + 1 < runs.size() && runs[run + 1].first <= begin) ++run;
      const bool same = run + 1 == runs.size() || runs[run + 1].first >= end;
      if (same && uniform.contains(runs[run].value)) {
        first_[block] = uniform[runs[run].value];
        continue;
      }
      first_[block] = add_block();
      if (same) uniform[runs[run].value] = first_[block];
      T* const values = values_.data() + (first_[block] << 8);
      for (char32_t c = begin; c < end; ++c) {
        while (run + 1 < runs.size() && runs[run + 1].first <= c) ++run;
        values[c - begin] = runs[run].value;
      }
    }
  }

  // Builds from values of all code points.
  explicit TwoStage(std::span<const T> all) {
    std::map<std::string_view, uint32_t> known;
    for (size_t block = 0; block < kBlocks; ++block) {
      const T* from = all.data() + (block << 8);
      const std::string_view bytes{reinterpret_cast<const char*>(from), 256 * sizeof(T)};
      const auto [it, added] = known.emplace(bytes, static_cast<uint32_t>(known.size()));
      if (added) values_.insert(values_.end(), from, from + 256);
      first_[block] = it->second;
    }
  }

 private:
  std::array<uint32_t, kBlocks> first_;
  std::vector<T> values_;
};

}  // namespace lathe::tokenizer::unicode
