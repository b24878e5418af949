// SPDX-License-Identifier: MIT
// matmul_n_bits: weights of 2 to 8 bits, packed at planning.
#include <algorithm>
#include <array>
#include <optional>

#include "ir/ops.h"
#include "targets/cpu/column_source.h"
#include "targets/cpu/gated_product.h"
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
  MatmulNBits(const Instruction& product, Constants constants, Isa isa)
      : MatmulNBits(product, product, kA, constants, isa) {}
  // `launched`: the GEMM or a region with it, which has operand a as `a`.
  MatmulNBits(const Instruction& product, const Instruction& launched, int a, Constants constants,
              Isa isa, std::optional<float> swiglu = {})
      : problem_(problem_of(product)), a_(a), isa_(isa) {
    problem_.swiglu = swiglu;
    if (const Tensor* bias = constant_at(constants, kBias)) bias_ = floats_of(*bias);
    if (constants[kB] == nullptr) {
      pack_columns(*source_of_columns(launched));
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

  std::string_view name() const override {
    return problem_.swiglu ? "cpu.matmul_n_bits+swiglu" : "cpu.matmul_n_bits";
  }
  bool reads(int operand) const override { return operand == a_; }
  std::string detail() const override {
    return fmt::format("m = 1: {}, m = 512: {}; {} packed", weight_only_variant(problem_, 1, isa_),
                       weight_only_variant(problem_, 512, isa_), megabytes(packed_->bytes()));
  }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    const TensorView& a = *most.in[static_cast<size_t>(a_)];
    reserve_copy(&a, workspace);
    reserve_copy(most.out[0], workspace);
    const int64_t rows = a.count() / problem_.k;
    workspace.take<std::byte>(weight_only_workspace(problem_, layout_, rows));
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const TensorView a = dense_operand(*args.in[static_cast<size_t>(a_)], workspace);
    const DenseResult y(*args.out[0], workspace);
    WeightOnlyCall call;
    call.a = a.data;
    call.a_stride = problem_.k;
    call.m = a.count() / problem_.k;
    call.y = y.view().data;
    call.y_stride = problem_.swiglu ? problem_.n / 2 : problem_.n;
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
      return pack_compact_parts(problem_, layout_, make, to, pool);
    }
    const auto make = [&](int64_t first, int64_t count, const WeightOnlyColumns& c) {
      columns.make(first, count, c);
      columns.release(first, count);
    };
    pack_weight_only(problem_, layout_, make, to, pool);
  }

  WeightOnlyProblem problem_;
  int a_;
  Isa isa_;
  WeightOnlyLayout layout_;
  std::shared_ptr<const PackedWeights> packed_;
  std::vector<float> bias_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return weight_only_refusal(problem_of(instruction));
}

}  // namespace

std::string why_no_gate(const Instruction& product, const Instruction& next) {
  if (product.op() != ops::matmul_n_bits || next.op() != ops::swiglu) {
    return fmt::format("no kernel of {} computes {}", product.op().name, next.op().name);
  }
  WeightOnlyProblem problem = problem_of(product);
  problem.swiglu = 1.0F;
  return weight_only_refusal(problem);
}

const Instruction* gated_product(const Instruction& region) {
  if (region.op() != ops::region) return nullptr;
  const Module& body = *region.bodies()[0];
  constexpr size_t kInstructions = 3;
  if (body.instructions().size() != kInstructions) return nullptr;
  auto at = body.instructions().begin();
  const Instruction& product = **at++;
  const Instruction& split = **at++;
  const Instruction& gate = **at;
  if (split.op() != ops::split || split.results().size() != 2 ||
      split.operands()[0] != product.result() || has_operand(split, 1) ||
      !why_no_gate(product, gate).empty() || body.results().size() != 1 ||
      body.results()[0] != gate.result()) {
    return nullptr;
  }
  const bool halves =
      gate.operands()[0] == split.result(0) && gate.operands()[1] == split.result(1) &&
      gate.result()->type() == split.result(0)->type() &&
      split.result(0)->type().dims->back() == Dim(attribute<int64_t>(product, "n") / 2);
  const bool outer = std::ranges::all_of(product.operands(), [](const Value* operand) {
    return operand == nullptr || operand->definition() == nullptr;
  });
  return halves && outer ? &product : nullptr;
}

KernelChoice make_gated_product(const Instruction& region, Constants constants, Isa isa) {
  const Instruction& product = *gated_product(region);
  const bool packs_columns = source_of_columns(region) != nullptr;
  std::array<const Tensor*, kBias + 1> own{};
  for (size_t i = 0; i < product.operands().size(); ++i) {
    if (!has_operand(product, i)) continue;
    own[i] = constant_at(constants, static_cast<size_t>(product.operands()[i]->index()));
    if (i != kA && own[i] == nullptr && !packs_columns) {
      return {nullptr, fmt::format("operand '{}' is not constant", product.op().operands[i].name)};
    }
  }
  const Instruction& gate = *region.bodies()[0]->instructions().back();
  const auto alpha = static_cast<float>(attribute<double>(gate, "alpha"));
  const int a = product.operands()[kA]->index();
  return {std::make_unique<MatmulNBits>(product, region, a, own, isa, alpha), ""};
}

const KernelEntry kMatmulNBits{ops::matmul_n_bits, why_not, make_n_bits<MatmulNBits>};

}  // namespace lathe::cpu
