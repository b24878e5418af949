// SPDX-License-Identifier: MIT
// A stable sort that is safe with orders that raise or are inconsistent.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace lathe::templates {

template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged(items.size());
  for (size_t run = 1; run < items.size(); run *= 2) {
    for (size_t begin = 0; begin < items.size(); begin += 2 * run) {
      const size_t middle = std::min(begin + run, items.size());
      const size_t end = std::min(begin + 2 * run, items.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool takes_right = left == middle || (right < end && less(items[right], items[left]));
        merged[out] = std::move(items[takes_right ? right++ : left++]);
      }
    }
    std::swap(items, merged);
  }
}

}  // namespace lathe::templates
