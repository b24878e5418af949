// SPDX-License-Identifier: MIT
// gather_n_bits: rows of the weights that a matmul_n_bits packs, from its packed weights; of those
// that it makes as it packs them, from their source.
#include <optional>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/support/indices.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/n_bits_weights.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kIndices, kB };

class GatherNBits final : public Kernel {
 public:
  GatherNBits(const Instruction& instruction, Constants constants, Isa isa)
      : problem_(n_bits_problem(instruction)), origin_(instruction) {
    layout_ = weight_only_layout(problem_);
    if (constants[kB] == nullptr) {
      columns_.emplace(*source_of_columns(instruction), weight_only_fit(isa));
      return;
    }
    packed_ = packed_n_bits(problem_, layout_, constants);
  }

  std::string_view name() const override { return "cpu.gather_n_bits"; }
  bool reads(int operand) const override { return operand == kIndices; }
  std::string detail() const override {
    return columns_ ? "rows of the source" : "rows of packed weights";
  }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    reserve_copy(most.out[0], workspace);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const DenseResult y(*args.out[0], workspace);
    const ScratchArray<int64_t> indices(args.in[kIndices]->count());
    load_values(*args.in[kIndices], 0, indices);
    for (int64_t& index : indices) {
      origin_.check(index >= -problem_.n && index < problem_.n,
                    "index {} is out of range for {} columns", index, problem_.n);
      if (index < 0) index += problem_.n;
    }
    auto* to = static_cast<float*>(y.view().data);
    parallel_for(args.pool, static_cast<int64_t>(indices.size()), 4,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     read_row(indices[static_cast<size_t>(i)], to + i * problem_.k);
                   }
                 });
    y.finish();
  }

 private:
  void read_row(int64_t row, float* to) const {
    if (!columns_) return weight_only_row(problem_, layout_, packed_->data(), row, to);
    const ColumnForm& form = columns_->form();
    const ScratchArray<uint8_t> codes(form.code_bytes());
    const ScratchArray<uint8_t> scales(bytes_for(form.scale_type, form.blocks));
    const ScratchArray<float> zeros(form.blocks);
    columns_->make(row, 1, {codes.data(), scales.data(), form.has_zeros ? zeros.data() : nullptr});
    weight_only_row(problem_, {codes.data(), scales.data(), zeros.data(), {}}, to);
  }

  WeightOnlyProblem problem_;
  WeightOnlyLayout layout_;
  OpOrigin origin_;
  std::shared_ptr<const PackedWeights> packed_;
  std::optional<SourceColumns> columns_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return weight_only_refusal(n_bits_problem(instruction));
}

}  // namespace

const KernelEntry kGatherNBits{ops::gather_n_bits, why_not, make_n_bits<GatherNBits>};

}  // namespace lathe::cpu
