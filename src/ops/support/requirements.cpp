// SPDX-License-Identifier: MIT
#include "ops/support/requirements.h"

#include <algorithm>

namespace lathe {
namespace {

std::string_view name_of(const Infer& c, int operand) {
  const auto& specs = c.instruction().op().operands;
  return specs[std::min(static_cast<size_t>(operand), specs.size() - 1)].name;
}

}  // namespace

void require_rank(const Infer& c, int operand, int rank) {
  c.check(c.rank(operand) == rank, "{} has rank {}, expected {}", name_of(c, operand),
          c.rank(operand), rank);
}

int require_rank(const Infer& c, int operand, int least, int most) {
  const int rank = c.rank(operand);
  c.check(
      rank >= least && rank <= most, "{} has rank {}, expected {}", name_of(c, operand), rank,
      most == kMaxRank ? fmt::format("at least {}", least) : fmt::format("{} to {}", least, most));
  return rank;
}

void require_ranks(const Infer& c, std::initializer_list<int> ranks) {
  int operand = 0;
  for (const int rank : ranks) require_rank(c, operand++, rank);
}

const std::string& require_choice(const Infer& c, std::string_view attribute,
                                  std::initializer_list<std::string_view> choices) {
  const std::string& value = c.text(attribute);
  c.check(std::ranges::find(choices, value) != choices.end(), "{} is '{}', expected one of {}",
          attribute, escape(value), fmt::join(choices, ", "));
  return value;
}

int64_t require_integer(const Infer& c, std::string_view attribute, int64_t least, int64_t most) {
  const int64_t value = c.integer(attribute);
  c.check(
      value >= least && value <= most, "{} is {}, expected {}", attribute, value,
      most == INT64_MAX ? fmt::format("at least {}", least) : fmt::format("{} to {}", least, most));
  return value;
}

ElementType require_element_type(const Infer& c, std::string_view attribute, TypeSet types,
                                 std::string_view expected) {
  const ElementType value = c.element_type(attribute);
  c.check((types & type_bit(value)) != 0, "{} is {}, expected {}", attribute, to_string(value),
          expected);
  return value;
}

Dim dim_of_element(Infer& c, int operand, size_t at, std::string_view hint, Range range) {
  const std::vector<Dim>* elements = c.elements(operand);
  if (elements == nullptr) return c.found(hint, range);
  c.check(at < elements->size(), "{} has {} elements, expected at least {}", name_of(c, operand),
          elements->size(), at + 1);
  return (*elements)[at];
}

void require_count(Infer& c, int operand, const Dim& count) {
  c.require_equal(element_count(c.dims(operand)), count,
                  fmt::format("number of elements of {}", name_of(c, operand)));
}

std::vector<Dim> dims_of_elements(Infer& c, int operand, size_t first, int64_t count,
                                  std::string_view hint) {
  require_count(c, operand, count);
  std::vector<Dim> dims;
  for (size_t at = first; at < static_cast<size_t>(count); ++at) {
    dims.push_back(dim_of_element(c, operand, at, hint));
    c.check(dims.back().constant().value_or(0) >= 0, "{} has the negative entry {}",
            name_of(c, operand), dims.back().to_string());
  }
  return dims;
}

const Dim* single_element(Infer& c, int operand) {
  require_count(c, operand, 1);
  const std::vector<Dim>* elements = c.elements(operand);
  return elements != nullptr ? &elements->front() : nullptr;
}

void require_multiple(Infer& c, const Dim& a, const Dim& b, std::string_view what) {
  Dim rest = b == Dim(0) ? a : Dim::mod(a, b);
  // A rest has no value where the divisor is 0 at run time: a must be 0 there.
  if (!rest.is_constant()) {
    rest = Dim::mod(a, Dim::max(b, 1)) + a * (Dim(1) - Dim::min(b, 1));
  }
  c.require_equal(rest, 0, what);
}

std::vector<Dim> require_square_matrices(Infer& c, int operand) {
  const int rank = require_rank(c, operand, 2, kMaxRank);
  c.require_equal(c.dim(operand, rank - 2), c.dim(operand, rank - 1), "rows and columns");
  return {c.dims(operand).begin(), c.dims(operand).end() - 2};
}

}  // namespace lathe
