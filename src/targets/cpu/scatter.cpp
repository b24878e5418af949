// SPDX-License-Identifier: MIT
// scatter_nd. With constant indices, the places of its slices are known at planning, and slices
// that follow each other are copied at once; otherwise its evaluation runs.
#include <cstring>
#include <optional>

#include "ir/ops.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"
#include "tensor/copy.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kX, kIndices, kUpdates };

// Consecutive elements of the updates that are consecutive in the result, too.
struct Run {
  int64_t from, to, count;
};

std::optional<Dims> constant_dims(const Type& type) {
  Dims dims;
  for (const Dim& dim : *type.dims) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(*dim.constant());
  }
  return dims;
}

// None if an index is outside x: the evaluation reports it.
std::optional<std::vector<Run>> runs_of(const Dims& dims, const Tensor& indices) {
  const auto depth = static_cast<size_t>(indices.dims().back());
  int64_t slice = 1;
  for (size_t axis = depth; axis < dims.size(); ++axis) slice *= dims[axis];
  std::vector<int64_t> values(static_cast<size_t>(indices.count()));
  convert(ElementType::i64, values.data(), indices.type(), indices.data(), indices.count());
  std::vector<Run> runs;
  int64_t from = 0;
  const int64_t slices = depth == 0 ? 0 : indices.count() / static_cast<int64_t>(depth);
  for (const int64_t* index = values.data(); from < slices * slice; from += slice) {
    int64_t place = 0;
    for (size_t axis = 0; axis < depth; ++axis) {
      int64_t at = *index++;
      if (at < 0) at += dims[axis];
      if (at < 0 || at >= dims[axis]) return std::nullopt;
      place = place * dims[axis] + at;
    }
    const int64_t to = place * slice;
    if (!runs.empty() && runs.back().to + runs.back().count == to) {
      runs.back().count += slice;
    } else {
      runs.push_back({from, to, slice});
    }
  }
  return runs;
}

class ScatterRuns final : public Kernel {
 public:
  ScatterRuns(std::vector<Run> runs, int64_t count, ElementType type)
      : runs_(std::move(runs)), bytes_(info(type).bits / 8) {
    is_whole_ = runs_.size() == 1 && runs_[0].count == count;
  }
  std::string_view name() const override { return "cpu.scatter_nd"; }
  std::string detail() const override { return fmt::format("{} copies", runs_.size()); }
  bool reads(int operand) const override { return operand != kIndices; }
  bool may_overwrite(int operand) const override { return operand == kX; }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    reserve_copy(most.in[kUpdates], workspace);
    reserve_copy(most.out[0], workspace);
    return workspace.bytes();
  }
  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const TensorView updates = dense_operand(*args.in[kUpdates], workspace);
    const DenseResult y(*args.out[0], workspace);
    auto* to = y.view().as<std::byte>();
    if (!is_whole_ && args.in[kX]->data != to) copy_elements(*args.in[kX], y.view(), args.pool);
    for (const Run& run : runs_) {
      std::memcpy(to + run.to * bytes_, updates.as<std::byte>() + run.from * bytes_,
                  static_cast<size_t>(run.count * bytes_));
    }
    y.finish();
  }

 private:
  std::vector<Run> runs_;
  int64_t bytes_;
  bool is_whole_;  // one run replaces all elements
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const Type& type = instruction.result()->type();
  if (type.is_boxed()) return "its result is a string tensor";
  return info(type.element).bits >= 8
             ? ""
             : fmt::format("{} has elements below 8 bits", to_string(type.element));
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa /*isa*/) {
  const Tensor* indices = constant_at(constants, kIndices);
  const Type& type = instruction.result()->type();
  const bool is_tensor = type.is_ranked();
  if (indices != nullptr && is_tensor &&
      attribute<std::string>(instruction, "reduction") == "none") {
    if (const std::optional<Dims> dims = constant_dims(type)) {
      int64_t count = 1;
      for (const int64_t extent : *dims) count *= extent;
      if (std::optional<std::vector<Run>> runs = runs_of(*dims, *indices)) {
        return {std::make_unique<ScatterRuns>(std::move(*runs), count, type.element), ""};
      }
    }
  }
  return make_reference_kernel(instruction, "cpu");
}

}  // namespace

const KernelEntry kScatterNd{ops::scatter_nd, why_not, make};

}  // namespace lathe::cpu
