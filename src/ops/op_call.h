// SPDX-License-Identifier: MIT
// What code shared by evaluations and kernels sees of one run of an op; its attributes it gets
// apart, read once.
#pragma once

#include "ops/evaluation.h"
#include "ops/support/indices.h"
#include "ops/support/scratch_tensor.h"

namespace lathe {

class OpCall {
 public:
  OpCall(const OpOrigin& origin, OperandViews& views) : origin_(origin), views_(views) {}
  OpCall(Evaluation& c) : OpCall(c, c) {}  // NOLINT(google-explicit-constructor)

  int count() const { return views_.count(); }
  bool has(int i) const { return views_.has(i); }
  const TensorView& in(int i) const { return views_.in(i); }
  const TensorView& out(int i = 0) const { return views_.out(i); }
  const TensorView& out(int i, std::span<const int64_t> dims) const { return views_.out(i, dims); }
  // The integers of an operand, row-major.
  ScratchList<int64_t> values(int i) const {
    ScratchList<int64_t> values;
    values.resize(static_cast<size_t>(in(i).count()));
    load_values(in(i), 0, {values.data(), values.size()});
    return values;
  }
  ThreadPool* pool() const { return views_.pool; }
  const OpOrigin& origin() const { return origin_; }
  const OperandViews& views() const { return views_; }

  template <class... Rest>
  void check(bool condition, fmt::format_string<Rest...> format, Rest&&... rest) const {
    origin_.check(condition, format, std::forward<Rest>(rest)...);
  }

 private:
  const OpOrigin& origin_;
  OperandViews& views_;
};

}  // namespace lathe
