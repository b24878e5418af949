// SPDX-License-Identifier: MIT
// Imports models in ONNX text and runs them on `ref`.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "import/onnx/importer.h"
#include "import/onnx/text_reader.h"
#include "ir/print.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/contains.h"
#include "tests/support/errors.h"

namespace lathe::test {

inline std::unique_ptr<Program> import_text(std::string_view text,
                                            const ImportOptions& options = {}) {
  return import_onnx(onnx::parse_text_model(text, "m.txt"), options);
}

inline std::string import_error(std::string_view text) {
  return error_of([&] { import_text(text); });
}

// A dense tensor of numbers.
template <class T>
Box tensor(ElementType type, Dims dims, std::vector<T> values) {
  Tensor out(type, std::move(dims));
  std::copy(values.begin(), values.end(), out.as<T>());
  return Box{std::move(out)};
}
inline Box floats(Dims dims, std::vector<float> values) {
  return tensor(ElementType::f32, std::move(dims), std::move(values));
}
inline Box integers(Dims dims, std::vector<int64_t> values) {
  return tensor(ElementType::i64, std::move(dims), std::move(values));
}
inline Box boolean(bool value) {
  Tensor out(ElementType::boolean, {});
  *out.as<bool>() = value;
  return Box{std::move(out)};
}

inline std::vector<Box> run_text(std::string_view text, std::vector<Box> inputs) {
  Session session(compile(import_text(text)));
  return session.run(inputs);
}

inline std::vector<float> values_of(const Box& box) {
  const auto all = box.tensor().elements<float>();
  return {all.begin(), all.end()};
}

// The elements of the only output.
inline std::vector<float> run_floats(std::string_view text, std::vector<Box> inputs) {
  const std::vector<Box> results = run_text(text, std::move(inputs));
  EXPECT_EQ(results.size(), 1);
  return values_of(results.at(0));
}

}  // namespace lathe::test
