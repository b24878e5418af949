// SPDX-License-Identifier: MIT
// Programs over literals that tests make.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "ir/parse.h"
#include "runtime/session.h"

namespace lathe::test {

// Parses a program whose literals by hash are make(element type, dims, hash).
template <class Make>
std::unique_ptr<Program> parse_with_made(std::string_view text, Make&& make) {
  return parse_program(text, {.literal_by_hash = [&](uint64_t hash, const Type& type) {
                         Dims dims;
                         for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
                         auto literal = std::make_shared<Literal>();
                         literal->tensor = make(type.element, std::move(dims), hash);
                         return LiteralRef(literal);
                       }});
}

// The elements of a literal in text form: sines around `centre`.
inline std::string sines(int64_t count, double centre = 0) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const double value = centre + std::sin(static_cast<double>(i) * 0.61);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", value);
  }
  return text;
}

// The first result of a plan of one input, for cosines.
inline Tensor run_on_cosines(std::shared_ptr<const Plan> plan, Dims dims) {
  const Tensor x(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = std::cos(static_cast<float>(i));
  Session session(std::move(plan));
  return session.run(std::vector<Box>{Box{x}}).at(0).tensor();
}

}  // namespace lathe::test
