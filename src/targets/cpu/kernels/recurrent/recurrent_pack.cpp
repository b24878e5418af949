// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/recurrent_pack.h"

#include <algorithm>
#include <cstring>

#include "base/os_memory.h"

namespace lathe::cpu {
namespace {

std::vector<PackedStage> stages_of(const RecurrentProblem& p) {
  std::vector<PackedStage> out;
  const auto add = [&](RecurrentStage stage, std::vector<int64_t> gates) {
    PackedStage one;
    one.stage = stage;
    one.gates = std::move(gates);
    out.push_back(std::move(one));
  };
  if (p.cell == RecurrentCell::lstm) {
    add(RecurrentStage::lstm, {0, 1, 2, 3});
  } else if (p.cell == RecurrentCell::rnn) {
    add(RecurrentStage::rnn, {0});
  } else if (p.linear_before_reset) {
    add(RecurrentStage::gru, {0, 1, 2});
  } else {
    add(RecurrentStage::gru_gates, {0, 1});
    add(RecurrentStage::gru_hidden, {2});
  }
  return out;
}

// Calls each(column, row of the weights) for every column that is a unit of the layer.
template <class F>
void for_each_column(const PackedStage& stage, int64_t hidden, int lanes, F&& each) {
  const int64_t vectors = recurrent_vectors(stage.stage);
  const int64_t units = recurrent_unit_vectors(stage.stage);
  for (int64_t column = 0; column < stage.columns; ++column) {
    const int64_t panel = column / (vectors * lanes), vector = column / lanes % vectors;
    const int64_t gate = stage.gates[static_cast<size_t>(units == 1 ? vector : 0)];
    const int64_t unit = (panel * units + (units == 1 ? 0 : vector)) * lanes + column % lanes;
    if (unit < hidden) each(column, gate * hidden + unit);
  }
}

// Packs rows of `depth` elements as [panel][k][vectors · lanes].
AlignedFloats pack(const PackedStage& stage, const float* rows, int64_t depth, int64_t hidden,
                   int lanes) {
  AlignedFloats out = aligned_floats(stage.columns * depth);
  const int64_t width = recurrent_vectors(stage.stage) * lanes;
  for_each_column(stage, hidden, lanes, [&](int64_t column, int64_t row) {
    float* to = out.get() + column / width * width * depth + column % width;
    for (int64_t k = 0; k < depth; ++k) to[k * width] = rows[row * depth + k];
  });
  return out;
}

}  // namespace

void AlignedFree::operator()(float* p) const { ::operator delete(p, alignment); }

AlignedFloats aligned_floats(int64_t count) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(1, count)) * sizeof(float);
  const std::align_val_t alignment{bytes < kLargePage ? 64 : kLargePage};
  AlignedFloats out(static_cast<float*>(::operator new(bytes, alignment)), AlignedFree{alignment});
  prefer_large_pages(out.get(), bytes);
  std::memset(out.get(), 0, bytes);
  return out;
}

RecurrentPacked::RecurrentPacked(const RecurrentProblem& p, const RecurrentWeights& weights,
                                 int64_t direction, int lanes)
    : stages(stages_of(p)) {
  const int64_t rows = Recurrent::gates(p.cell) * p.hidden;
  const float* w = weights.w + direction * rows * p.input;
  const float* r = weights.r + direction * rows * p.hidden;
  const float* b = weights.b == nullptr ? nullptr : weights.b + direction * 2 * rows;
  for (PackedStage& stage : stages) {
    const int64_t units = recurrent_unit_vectors(stage.stage) * lanes;
    stage.panels = (p.hidden + units - 1) / units;
    stage.columns = stage.panels * recurrent_vectors(stage.stage) * lanes;
    pitch = std::max(pitch, stage.panels * units);
    stage.w = pack(stage, w, p.input, p.hidden, lanes);
    stage.r = pack(stage, r, p.hidden, p.hidden, lanes);
    stage.bias = aligned_floats(stage.columns);
    if (b == nullptr) continue;
    for_each_column(stage, p.hidden, lanes, [&](int64_t column, int64_t row) {
      // The reset gate multiplies the recurrent part of h, including its bias.
      const bool inside_reset = stage.stage == RecurrentStage::gru && row >= 2 * p.hidden;
      stage.bias.get()[column] = b[row] + (inside_reset ? 0 : b[rows + row]);
    });
  }
  hidden_bias = aligned_floats(pitch);
  if (b != nullptr && p.cell == RecurrentCell::gru) {
    std::copy_n(b + rows + 2 * p.hidden, p.hidden, hidden_bias.get());
  }
  if (weights.peepholes == nullptr) return;
  peepholes = aligned_floats(3 * pitch);
  for (int64_t gate = 0; gate < 3; ++gate) {
    std::copy_n(weights.peepholes + (direction * 3 + gate) * p.hidden, p.hidden,
                peepholes.get() + gate * pitch);
  }
}

}  // namespace lathe::cpu
