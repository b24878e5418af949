// SPDX-License-Identifier: MIT
// Evaluations over strings: element by element, and into lists along a new last axis of result 0.
#pragma once

#include <algorithm>
#include <concepts>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/views.h"

namespace lathe {

// Sets each element of result 0 to f(a), or f(a, b), of the operands' strings, which broadcast.
template <class To, class F>
void map_texts(Evaluation& c, F&& f) {
  const TensorView& out = c.out(0, broadcast_extents(c));
  const TensorView a = broadcast_to(c.in(0), out.extents());
  const TensorView b = broadcast_to(c.in(c.count() - 1), out.extents());
  for_each_index(out.extents(), [&](std::span<const int64_t> at) {
    const std::string& text = a.as<std::string>()[offset_of(a, at)];
    To& result = out.as<To>()[offset_of(out, at)];
    if constexpr (std::invocable<F, const std::string&>) {
      result = static_cast<To>(f(text));
    } else {
      result = static_cast<To>(f(text, b.as<std::string>()[offset_of(b, at)]));
    }
  });
}

// The lists split(text) of the elements of operand 0, in order.
template <class F>
auto split_elements(const Evaluation& c, F&& split) {
  std::vector<decltype(split(std::string()))> rows;
  for_each_index(c.in(0).extents(), [&](std::span<const int64_t> at) {
    rows.push_back(split(c.in(0).as<std::string>()[offset_of(c.in(0), at)]));
  });
  return rows;
}

// The type of result 0, which store_text_rows() stores: the lists, each padded to the longest.
inline void infer_text_rows(Infer& c, std::string_view hint) {
  std::vector<Dim> dims = c.dims(0);
  dims.push_back(c.found(hint));
  c.result(ElementType::string, std::move(dims));
}
template <class Row>
void store_text_rows(Evaluation& c, const std::vector<Row>& rows, const std::string& padding) {
  size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.size());
  Dims dims = dims_of(c.in(0));
  dims.push_back(static_cast<int64_t>(longest));
  const TensorView& out = c.out(0, dims);
  size_t next = 0;
  for_each_index(out.extents(), [&](std::span<const int64_t> at) {
    const Row& row = rows[next++ / longest];
    const auto i = static_cast<size_t>(at.back());
    out.as<std::string>()[offset_of(out, at)] = i < row.size() ? std::string(row[i]) : padding;
  });
}

}  // namespace lathe
