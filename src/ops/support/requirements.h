// SPDX-License-Identifier: MIT
// Requirements of many ops on operands and attributes; an error names what breaks one.
#pragma once

#include <initializer_list>

#include "ir/infer.h"

namespace lathe {

// The rank of the operand, which must be `rank`, or from `least` to `most`.
void require_rank(const Infer& c, int operand, int rank);
int require_rank(const Infer& c, int operand, int least, int most);
// Ranks of the operands from the first on.
void require_ranks(const Infer& c, std::initializer_list<int> ranks);
// The value of the attribute, which must be one of `choices`, or from `least` to `most`.
const std::string& require_choice(const Infer& c, std::string_view attribute,
                                  std::initializer_list<std::string_view> choices);
int64_t require_integer(const Infer& c, std::string_view attribute, int64_t least,
                        int64_t most = INT64_MAX);
// The element type of the attribute, which must be one of `types`, named `expected` in the error.
ElementType require_element_type(const Infer& c, std::string_view attribute, TypeSet types,
                                 std::string_view expected);
// Element `at` of an integer operand, as a dim; where it is unknown, a data-dependent symbol.
Dim dim_of_element(Infer& c, int operand, size_t at, std::string_view hint, Range range = {});
// Elements [first, count) of an integer operand, which must have `count`, as dims that are not
// negative.
std::vector<Dim> dims_of_elements(Infer& c, int operand, size_t first, int64_t count,
                                  std::string_view hint);
// The symbolic value of the only element of an integer operand; null if it is unknown.
const Dim* single_element(Infer& c, int operand);
// The operand must have `count` elements.
void require_count(Infer& c, int operand, const Dim& count);
// `a` must be a multiple of `b`; only 0 is one of 0.
void require_multiple(Infer& c, const Dim& a, const Dim& b, std::string_view what);
// Square matrices in the last two axes of the operand; returns the axes before them.
std::vector<Dim> require_square_matrices(Infer& c, int operand);

}  // namespace lathe
