// SPDX-License-Identifier: MIT
// moe and qmoe: tokens grouped by expert, and a GEMM of all tokens of an expert with each of its
// matrices. One GEMM computes the gates and the values of an expert.
#include <algorithm>
#include <limits>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/support/mixture_of_experts.h"
#include "targets/cpu/expert_matrices.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/row_ops.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

using Kind = ExpertActivation::Kind;

enum Operand : size_t { kX, kRouter };

// The operands of fc1, fc2 and fc3 in each op; 0: there is none.
struct MatrixOperands {
  size_t weights, bias, scales, zeros;
};
constexpr size_t kMixing = 14, kOrder = 16;  // of qmoe

bool is_quantised(const Instruction& instruction) { return instruction.op() == ops::qmoe; }

size_t scales_operand(const Instruction& instruction) { return is_quantised(instruction) ? 15 : 8; }

MatrixOperands operands_of(const Instruction& instruction, size_t i) {
  if (is_quantised(instruction)) return {2 + 3 * i, 4 + 3 * i, 3 + 3 * i, 11 + i};
  return {2 + 2 * i, 3 + 2 * i, 0, 0};
}

// The type of a matrix of GGUF blocks; null: codes or floats.
const BlockFormat* format_of(const Instruction& instruction, size_t i) {
  if (!is_quantised(instruction)) return nullptr;
  constexpr std::array<std::string_view, 3> kTypes = {"fc1_type", "fc2_type", "fc3_type"};
  const auto& type = attribute<std::string>(instruction, kTypes[i]);
  return type.empty() ? nullptr : find_block_format(type);
}

bool has_matrix(const Instruction& instruction, size_t i) {
  return has_operand(instruction, operands_of(instruction, i).weights);
}

// Size of an axis of the weights of fc1, fc2 or fc3; none if it is symbolic.
std::optional<int64_t> size_of(const Instruction& instruction, size_t i, size_t axis) {
  const Value& weights = *instruction.operands()[operands_of(instruction, i).weights];
  return (*weights.type().dims)[axis].constant();
}

ExpertShape shape_of(const Instruction& instruction, size_t i) {
  ExpertShape shape{.experts = *size_of(instruction, i, 0), .inputs = *size_of(instruction, i, 2)};
  if (!is_quantised(instruction)) return shape;
  shape.int8 = attribute<std::string>(instruction, "compute_type") == "int8";
  shape.format = format_of(instruction, i);
  if (shape.format != nullptr) {
    shape.bits = shape.format->bits;
    shape.block = shape.format->group;
    shape.inputs = shape.inputs / shape.format->bytes * shape.format->elements;
    return shape;
  }
  shape.bits = static_cast<int>(attribute<int64_t>(instruction, "expert_weight_bits"));
  shape.block = attribute<int64_t>(instruction, "block_size");
  shape.inputs = shape.inputs * 8 / shape.bits;
  return shape;
}

class ExpertsKernel final : public Kernel {
 public:
  ExpertsKernel(const Instruction& instruction, Constants constants, Isa isa)
      : isa_(isa),
        name_(fmt::format("cpu.{}", instruction.op().name)),
        mixes_(has_operand(instruction, kMixing)) {
    const InstructionReader reader(instruction);
    activation_ = expert_activation(reader);
    routing_ = {.k = reader.integer("k"), .sparse = reader.boolean("use_sparse_mixer")};
    routing_.all = !is_quantised(instruction);
    if (routing_.all) routing_.normalise = reader.boolean("normalize_routing_weights");
    std::array<ExpertWeights, 3> weights;
    for (size_t i = 0; i < weights.size(); ++i) {
      const MatrixOperands at = operands_of(instruction, i);
      weights[i] = {.weights = constant_at(constants, at.weights),
                    .bias = constant_at(constants, at.bias),
                    .scales = at.scales == 0 ? nullptr : constant_at(constants, at.scales),
                    .zeros = at.zeros == 0 ? nullptr : constant_at(constants, at.zeros)};
      if (weights[i].weights != nullptr) continue;
      auto source = expert_source(instruction, static_cast<int>(at.weights));
      if (source) weights[i].source = *std::move(source);
    }
    if (const Tensor* scales = constant_at(constants, scales_operand(instruction))) {
      scales_ = floats_of(*scales);
      routing_.scales = scales_.data();
    }
    const Tensor* order = constant_at(constants, kOrder);
    if (is_quantised(instruction) && order != nullptr) {
      order_.assign(order->as<int32_t>(), order->as<int32_t>() + order->count());
      check_input_order(order_, order->dims()[1]);
    }
    const bool fused = activation_.factor() == 2;
    std::vector<ExpertWeights> first{weights[0]};
    if (!fused && has_matrix(instruction, 2)) first.push_back(weights[2]);
    has_values_ = fused || first.size() == 2;
    const ExpertShape shape = shape_of(instruction, 0);
    if (shape.int8) compute_ = "int8";
    experts_ = shape.experts;
    hidden_ = shape.inputs;
    inner_ = shape_of(instruction, 1).inputs;
    first_.emplace(
        shape, first,
        fused && activation_.fusion == 1 ? ExpertRows::even_then_odd : ExpertRows::as_stored, isa);
    second_.emplace(shape_of(instruction, 1), std::span(&weights[1], 1), ExpertRows::as_stored,
                    isa);
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override {
    const auto at = static_cast<size_t>(operand);
    return at == kX || at == kRouter || (mixes_ && at == kMixing);
  }
  std::string detail() const override {
    const ElementType type = first_->stored_type();
    return fmt::format("{} of {} experts, {}, {}{} packed", routing_.k, experts_, compute_,
                       megabytes(first_->bytes() + second_->bytes()),
                       type == ElementType::f32 ? "" : fmt::format(" of {}", to_string(type)));
  }
  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    reserve_floats(*most.in[kX], workspace);
    reserve_floats(*most.in[kRouter], workspace);
    if (mixes_) reserve_floats(*most.in[kMixing], workspace);
    Buffers(*this, most.in[kX]->count() / hidden_, workspace);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    ScratchLayout workspace = workspace_of(args);
    const std::span<const float> x = float_elements(*args.in[kX], workspace);
    const std::span<const float> logits = float_elements(*args.in[kRouter], workspace);
    std::span<const float> mixing;
    if (mixes_) mixing = float_elements(*args.in[kMixing], workspace);
    const int64_t tokens = std::ssize(x) / hidden_;
    if (tokens == 0) return;
    const Buffers buffers(*this, tokens, workspace);
    choose(logits, mixing, tokens, buffers, args.pool);
    group(tokens, buffers);
    std::fill_n(buffers.y, tokens * hidden_, 0.0F);
    // Experts in ascending order: a token's sum is independent of other tokens.
    for (int64_t e = 0; e < experts_; ++e) {
      const int64_t begin = e == 0 ? 0 : buffers.ends[e - 1];
      const std::span<const int64_t> served(buffers.served + begin,
                                            static_cast<size_t>(buffers.ends[e] - begin));
      if (!served.empty()) apply(e, x.data(), served, buffers, args.pool);
    }
    store(tokens, buffers.y, *args.out[0]);
  }

 private:
  static constexpr int64_t kGrain = 16384;  // elements

  // Memory of a launch; what belongs to one expert has room for all tokens.
  struct Buffers {
    Buffers(const ExpertsKernel& kernel, int64_t tokens, ScratchLayout& workspace) {
      routes = workspace.take<Route>(tokens * kernel.routing_.k);
      served = workspace.take<int64_t>(tokens * kernel.routing_.k);
      ends = workspace.take<int64_t>(kernel.experts_);
      y = workspace.take<float>(tokens * kernel.hidden_);
      rows = workspace.take<float>(tokens * kernel.hidden_);
      first = workspace.take<float>(tokens * kernel.first_->outputs());
      middle = workspace.take<float>(tokens * kernel.inner_);
      product = workspace.take<std::byte>(std::max(kernel.first_->workspace_bytes(tokens),
                                                   kernel.second_->workspace_bytes(tokens)));
    }
    Route* routes;
    int64_t* served;  // routes in the order of their experts
    int64_t* ends;    // in `served`, by expert
    float* y;
    float* rows;  // of x, later results
    float* first;
    float* middle;
    std::byte* product;
  };

  void choose(std::span<const float> logits, std::span<const float> mixing, int64_t tokens,
              const Buffers& buffers, ThreadPool* pool) const {
    const int64_t grain = std::max<int64_t>(1, 1024 / experts_);
    parallel_for(pool, tokens, grain, [&](int64_t begin, int64_t end) {
      const ScratchArray<Route> all(experts_);
      for (int64_t t = begin; t < end; ++t) {
        routing_.choose(logits.data() + t * experts_,
                        mixing.empty() ? nullptr : mixing.data() + t * experts_,
                        {all.data(), static_cast<size_t>(experts_)});
        std::copy_n(all.data(), routing_.k, buffers.routes + t * routing_.k);
      }
    });
  }

  void group(int64_t tokens, const Buffers& buffers) const {
    std::fill_n(buffers.ends, experts_, 0);
    const int64_t routes = tokens * routing_.k;
    for (int64_t i = 0; i < routes; ++i) ++buffers.ends[buffers.routes[i].expert];
    int64_t sum = 0;  // `ends` holds the beginnings until routes are placed
    for (int64_t e = 0; e < experts_; ++e) {
      const int64_t count = buffers.ends[e];
      buffers.ends[e] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < routes; ++i) {
      buffers.served[buffers.ends[buffers.routes[i].expert]++] = i;
    }
  }

  void apply(int64_t expert, const float* x, std::span<const int64_t> served,
             const Buffers& buffers, ThreadPool* pool) const {
    const int64_t rows = std::ssize(served);
    const int64_t grain = std::max<int64_t>(1, kGrain / hidden_);
    parallel_for(pool, rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* from = x + served[static_cast<size_t>(i)] / routing_.k * hidden_;
        float* to = buffers.rows + i * hidden_;
        if (order_.empty()) {
          std::copy_n(from, hidden_, to);
          continue;
        }
        const int32_t* order = order_.data() + expert * hidden_;
        for (int64_t j = 0; j < hidden_; ++j) to[j] = from[order[j]];
      }
    });
    first_->multiply(expert, buffers.rows, rows, buffers.first, buffers.product, pool);
    parallel_for(pool, rows, std::max<int64_t>(1, kGrain / inner_),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     activate(buffers.first + i * first_->outputs(), buffers.middle + i * inner_);
                   }
                 });
    second_->multiply(expert, buffers.middle, rows, buffers.rows, buffers.product, pool);
    parallel_for(pool, rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = served[static_cast<size_t>(i)];
        const float weight = buffers.routes[at].weight;
        const float* from = buffers.rows + i * hidden_;
        float* y = buffers.y + at / routing_.k * hidden_;
        for (int64_t j = 0; j < hidden_; ++j) y[j] += weight * from[j];
      }
    });
  }

  // Gates, then values, where there are values; may overwrite them.
  void activate(float* row, float* y) const {
    const VectorOps& ops = vector_ops(isa_);
    float* values = has_values_ ? row + inner_ : nullptr;
    if (activation_.gated() && activation_.limit > 0) {
      constexpr float kLowest = std::numeric_limits<float>::lowest();
      ops.activate(Activation::clip, kLowest, activation_.limit, row, row, inner_);
      ops.activate(Activation::clip, -activation_.limit, activation_.limit, values, values, inner_);
    }
    if (activation_.gated() && activation_.beta != 0) {
      for (int64_t i = 0; i < inner_; ++i) values[i] += activation_.beta;
    }
    switch (activation_.kind) {
      case Kind::swiglu:
        return row_ops(isa_).swiglu(activation_.alpha, row, values, y, inner_);
      case Kind::geglu:
      case Kind::gelu:
        ops.activate(Activation::gelu_tanh, 0, 0, row, y, inner_);
        break;
      case Kind::silu:
        ops.activate(Activation::silu, 1, 0, row, y, inner_);
        break;
      case Kind::relu:
        ops.activate(Activation::relu, 0, 0, row, y, inner_);
        break;
      case Kind::identity:
        std::copy_n(row, inner_, y);
        break;
    }
    if (values != nullptr) row_ops(isa_).mul(y, values, y, inner_);
  }

  void store(int64_t tokens, const float* y, const TensorView& to) const {
    TensorView from = dense_strides_of(to);
    from.data = const_cast<float*>(y);
    if (to.type == ElementType::f32) return copy_elements(from, to);
    const ScratchBlock rounded(tokens * hidden_ * info(to.type).bits / 8);
    convert_elements(vector_ops(isa_), to.type, rounded.data(), ElementType::f32, y,
                     tokens * hidden_);
    from.data = rounded.data();
    copy_elements(from, to);
  }

  Isa isa_;
  std::string name_;
  std::string_view compute_ = "f32";
  bool mixes_;
  ExpertActivation activation_;
  Routing routing_;
  std::vector<float> scales_;   // of each expert, or none
  std::vector<int32_t> order_;  // [experts, hidden], or none
  int64_t experts_ = 0;
  int64_t hidden_ = 0;
  int64_t inner_ = 0;  // inputs of fc2
  bool has_values_ = false;
  std::optional<ExpertMatrices> first_;   // fc1, followed by fc3 if it is not in fc1
  std::optional<ExpertMatrices> second_;  // fc2
};

bool is_supported(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  for (size_t i = 0; i < 3; ++i) {
    if (!has_matrix(instruction, i)) continue;
    const MatrixOperands at = operands_of(instruction, i);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (!size_of(instruction, i, axis)) return "the shape of its weights is symbolic";
    }
    const BlockFormat* format = format_of(instruction, i);
    if (i == 2 && format != format_of(instruction, 0)) return "its matrices differ in type";
    if (format != nullptr) continue;
    const ElementType type = element_of(instruction, at.scales == 0 ? at.weights : at.scales);
    if (!is_supported(type)) return fmt::format("its weights are {}", to_string(type));
    const bool zeros = at.zeros != 0 && has_operand(instruction, at.zeros);
    if (zeros != (at.zeros != 0 && has_operand(instruction, operands_of(instruction, 0).zeros))) {
      return "only some of its matrices have zero points";
    }
    if (i == 2 && type != element_of(instruction, at.scales == 0 ? 2 : 3)) {
      return "fc1 and fc3 differ in type";
    }
    const ExpertShape shape = shape_of(instruction, i);
    if (shape.inputs == 0 || shape.experts == 0) return "it has no weights";
    std::string reason = shape.bits == 0 ? "" : why_no_codes(shape);
    if (!reason.empty()) return reason;
  }
  const ExpertActivation activation = expert_activation(InstructionReader(instruction));
  if (activation.gated() && activation.fusion == 0 && !has_matrix(instruction, 2)) {
    return "it has no fc3";
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  for (size_t i = 2; i < instruction.operands().size(); ++i) {
    const bool mixing = is_quantised(instruction) && i == kMixing;
    if (!mixing && has_operand(instruction, i) && constant_at(constants, i) == nullptr &&
        !expert_source(instruction, static_cast<int>(i))) {
      return {nullptr,
              fmt::format("operand '{}' is not constant", instruction.op().operands[i].name)};
    }
  }
  return {std::make_unique<ExpertsKernel>(instruction, constants, isa), ""};
}

}  // namespace

const KernelEntry kMoe{ops::moe, why_not, make};
const KernelEntry kQmoe{ops::qmoe, why_not, make};

}  // namespace lathe::cpu
