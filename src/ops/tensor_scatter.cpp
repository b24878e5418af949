// SPDX-License-Identifier: MIT
// A KV cache of fixed capacity [batch, …]: overwrites entries from each sequence's write index on.
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/convert_operands.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

bool is_circular(const std::string& mode) { return mode == "circular"; }

void infer_tensor_scatter(Infer& c) {
  const std::string& mode = c.text("mode");
  c.check(mode == "linear" || is_circular(mode), "mode is '{}', expected linear or circular",
          escape(mode));
  const int rank = c.rank(0);
  c.check(rank >= 2 && c.rank(1) == rank,
          "past_cache has rank {}, update has rank {}: expected equal ranks", rank, c.rank(1));
  const int axis = c.axis("axis", rank);
  c.check(axis != 0, "axis {} is the batch axis", axis);
  for (int other = 0; other < rank; ++other) {
    if (other == axis) continue;
    c.require_equal(c.dim(0, other), c.dim(1, other),
                    fmt::format("axis {} of past_cache and update", other));
  }
  c.require_less_equal(c.dim(1, axis), c.dim(0, axis), "tokens of update and past_cache");
  if (c.has(2)) c.require_equal(element_count(c.dims(2)), c.dim(0, 0), "number of write_indices");
  c.result(c.element(0), c.dims(0));
}

void eval_tensor_scatter(Evaluation& c) {
  const UnpackedOperand past(c.in(0));
  const UnpackedOperand update(c.in(1));
  const UnpackedResult present(c.out(0, past.view().extents()));
  const int axis = c.axis("axis", past.view().rank);
  const int64_t capacity = past.view().dims[axis];
  const int64_t rows = update.view().dims[axis];
  const int64_t batch = past.view().dims[0];
  std::vector<int64_t> starts(static_cast<size_t>(batch), 0);
  if (c.has(2)) starts = c.values(2);
  c.check(std::ssize(starts) == batch, "got {} write_indices for a batch of {}", starts.size(),
          batch);
  c.check(rows <= capacity, "got {} tokens for a cache of {}", rows, capacity);
  copy_elements(past.view(), present.view());
  const bool circular = is_circular(c.text("mode"));
  for (int64_t b = 0; b < batch && rows > 0; ++b) {
    const int64_t given = starts[static_cast<size_t>(b)];
    c.check(given >= 0 && (circular || given <= capacity - rows),
            "write index {} of sequence {}: {} tokens exceed the cache of {}", given, b, rows,
            capacity);
    const int64_t start = given % capacity;
    const TensorView from = narrow(update.view(), 0, b, 1);
    const TensorView to = narrow(present.view(), 0, b, 1);
    const int64_t before = std::min(rows, capacity - start);
    copy_elements(narrow(from, axis, 0, before), narrow(to, axis, start, before));
    copy_elements(narrow(from, axis, before, rows - before), narrow(to, axis, 0, rows - before));
  }
  present.store();
}

}  // namespace

static const Register tensor_scatter{{
    .name = "tensor_scatter",
    .doc = "The past cache with the update written from each sequence's write index on.",
    .operands = {{"past_cache", kAnyType, Arity::one, 'T'},
                 {"update", kAnyType, Arity::one, 'T'},
                 {"write_indices", kIndices, Arity::optional}},
    .attributes = {{"axis", -2}, {"mode", Attribute(std::string("linear"))}},
    .infer = infer_tensor_scatter,
    .eval = eval_tensor_scatter,
}};

}  // namespace lathe
