// SPDX-License-Identifier: MIT
// gather_n_bits: rows of the weights that a matmul_n_bits packs, from its packed weights; of those
// that it makes as it packs them, from their source.
#include <optional>

#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/lookup.h"
#include "targets/cpu/n_bits_weights.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kIndices, kB };

class GatherNBits final : public Lookup {
 public:
  GatherNBits(const Instruction& instruction, Constants constants, Isa isa)
      : GatherNBits(instruction, n_bits_problem(instruction), constants, isa) {}

  std::string_view name() const override { return "cpu.gather_n_bits"; }
  std::string detail() const override {
    return columns_ ? "rows of the source" : "rows of packed weights";
  }

 private:
  GatherNBits(const Instruction& instruction, const WeightOnlyProblem& problem, Constants constants,
              Isa isa)
      : Lookup(instruction, kIndices, problem.n, bytes_for(ElementType::f32, problem.k),
               fmt::format("{} columns", problem.n)),
        problem_(problem),
        layout_(weight_only_layout(problem)) {
    if (constants[kB] == nullptr) {
      columns_.emplace(*source_of_columns(instruction), weight_only_fit(isa));
    } else {
      packed_ = packed_n_bits(problem_, layout_, constants);
    }
  }

  void read_row(int64_t row, std::byte* bytes) const override {
    auto* to = reinterpret_cast<float*>(bytes);
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
  std::shared_ptr<const PackedWeights> packed_;
  std::optional<SourceColumns> columns_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return weight_only_refusal(n_bits_problem(instruction));
}

}  // namespace

const KernelEntry kGatherNBits{ops::gather_n_bits, why_not, make_n_bits<GatherNBits>};

}  // namespace lathe::cpu
