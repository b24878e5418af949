// SPDX-License-Identifier: MIT
// A program of 16-bit floats on the GPU target's host drivers, beside ref.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {

// The first result is ref's within the rounding of `type`, and the same bits on all drivers.
inline void expect_beside_ref(
    const std::function<std::unique_ptr<Program>()>& program,
    const std::function<std::vector<Box>(const Module& main)>& make_inputs, ElementType type) {
  Session reference(compile(program(), {.target = find_target("ref")}));
  const std::vector<Box> inputs = make_inputs(reference.plan().program->main());
  const Tensor expected = reference.run(inputs)[0].tensor();
  std::optional<Tensor> first;
  for (const auto& target : gpu_host_targets()) {
    Session session(compile(program(), {.target = target}));
    const Tensor found = session.run(inputs)[0].tensor();
    for (int64_t at = 0; at < expected.count(); ++at) {
      ASSERT_NEAR(load_double(type, expected.data(), at), load_double(type, found.data(), at),
                  type == ElementType::f16 ? 3e-3 : 2e-2)
          << at;
    }
    if (first) EXPECT_TRUE(identical(*first, found));
    first = found.clone();
  }
}

}  // namespace lathe::test
