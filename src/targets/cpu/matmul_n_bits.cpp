// SPDX-License-Identifier: MIT
// matmul_n_bits: weights of 2 to 8 bits, packed at planning.
#include <algorithm>
#include <optional>

#include "ir/ops.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/n_bits_weights.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kA, kB, kGroups = 4, kBias };

WeightOnlyProblem problem_of(const Instruction& instruction) {
  WeightOnlyProblem p = n_bits_problem(instruction);
  p.grouped = has_operand(instruction, kGroups);
  p.a_type = p.y_type = element_of(instruction, kA);
  const auto compute = attribute<std::string>(instruction, "compute_type");
  p.compute = compute == "int8"   ? WeightOnlyCompute::int8
              : compute == "bf16" ? WeightOnlyCompute::bf16
                                  : WeightOnlyCompute::f32;
  return p;
}

class MatmulNBits final : public Kernel {
 public:
  MatmulNBits(const Instruction& instruction, Constants constants, Isa isa)
      : problem_(problem_of(instruction)), isa_(isa) {
    if (const Tensor* bias = constant_at(constants, kBias)) bias_ = floats_of(*bias);
    if (constants[kB] == nullptr) {
      pack_columns(*source_of_columns(instruction));
      return;
    }
    std::vector<int32_t> groups;
    if (problem_.grouped) {
      const Tensor& given = *constants[kGroups];
      groups.resize(static_cast<size_t>(given.count()));
      convert(ElementType::i32, groups.data(), given.type(), given.data(), given.count());
    }
    layout_ = weight_only_layout(problem_, groups);
    packed_ = packed_n_bits(problem_, layout_, constants, groups);
  }

  std::string_view name() const override { return "cpu.matmul_n_bits"; }
  bool reads(int operand) const override { return operand == kA; }
  std::string detail() const override {
    return fmt::format("m = 1: {}, m = 512: {}; {} packed", weight_only_variant(problem_, 1, isa_),
                       weight_only_variant(problem_, 512, isa_), megabytes(packed_->bytes()));
  }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    reserve_copy(most.in[kA], workspace);
    reserve_copy(most.out[0], workspace);
    const int64_t rows = most.in[kA]->count() / problem_.k;
    workspace.take<std::byte>(weight_only_workspace(problem_, layout_, rows));
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const TensorView a = dense_operand(*args.in[kA], workspace);
    const DenseResult y(*args.out[0], workspace);
    WeightOnlyCall call;
    call.a = a.data;
    call.a_stride = problem_.k;
    call.m = a.count() / problem_.k;
    call.y = y.view().data;
    call.y_stride = problem_.n;
    call.bias = bias_.empty() ? nullptr : bias_.data();
    if (call.m == 0) return;
    call.workspace = workspace.take<std::byte>(weight_only_workspace(problem_, layout_, call.m));
    run_weight_only(problem_, layout_, packed_->data(), call, isa_, args.pool);
    y.finish();
  }

 private:
  // Quantises or splits the weights as they are packed.
  void pack_columns(const Instruction& made) {
    const SourceColumns columns(made, weight_only_fit(isa_));
    columns.hold(problem_);
    layout_ = weight_only_layout(problem_);
    const std::vector<const Tensor*> sources = source_tensors(made);
    const std::string id =
        fmt::format("{}, of {}", weight_only_packing_id(problem_), columns_id(made));
    packed_ = packed_weights(sources, id, static_cast<size_t>(layout_.bytes),
                             [&](void* to, ThreadPool* pool) { pack_columns(columns, to, pool); });
  }
  void pack_columns(const SourceColumns& columns, void* to, ThreadPool* pool) const {
    if (problem_.compact) {
      const auto make = [&](int64_t first, int64_t count, const CompactColumns& c) {
        columns.make_compact(first, count, c);
        columns.release(first, count);
      };
      return pack_compact(problem_, layout_, make, to, pool);
    }
    const auto make = [&](int64_t first, int64_t count, const WeightOnlyColumns& c) {
      columns.make(first, count, c);
      columns.release(first, count);
    };
    pack_weight_only(problem_, layout_, make, to, pool);
  }

  WeightOnlyProblem problem_;
  Isa isa_;
  WeightOnlyLayout layout_;
  std::shared_ptr<const PackedWeights> packed_;
  std::vector<float> bias_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return weight_only_refusal(problem_of(instruction));
}

}  // namespace

const KernelEntry kMatmulNBits{ops::matmul_n_bits, why_not, make_n_bits<MatmulNBits>};

}  // namespace lathe::cpu
