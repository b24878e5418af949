// SPDX-License-Identifier: MIT
// linear_attention and sequence_linear_attention.
#include "targets/cpu/kernels/recurrent/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "ir/ops.h"
#include "ops/support/dense_operand.h"
#include "ops/support/f32_result.h"
#include "ops/support/linear_attention.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

// Copies of an item's operands and results that do not match the kernels' layout: f32, contiguous
// tokens, dense states. finish() copies the results back.
class Staging {
 public:
  static bool is_needed(const LinearRecurrence& r) {
    return !(has_tokens(r.query) && has_tokens(r.key) && has_tokens(r.value) &&
             (!r.decay || has_tokens(*r.decay)) && (!r.beta || has_tokens(*r.beta)) &&
             (!r.past || is_state(*r.past)) && has_tokens(r.y) && is_state(r.present));
  }
  void stage(LinearRecurrence& r) {
    size_t at = 0;
    for (TensorView* view : {&r.query, &r.key, &r.value}) {
      read(operands_[at++], *view, has_tokens(*view));
    }
    for (std::optional<TensorView>* view : {&r.decay, &r.beta}) {
      if (*view) read(operands_[at], **view, has_tokens(**view));
      ++at;
    }
    if (r.past) read(operands_[at], *r.past, is_state(*r.past));
    write(results_[0], r.y, has_tokens(r.y));
    write(results_[1], r.present, is_state(r.present));
  }
  void finish() const {
    for (const std::optional<F32Result>& result : results_) {
      if (result) result->store();
    }
  }

 private:
  static bool has_tokens(const TensorView& view) {
    return view.type == ElementType::f32 && (view.strides[2] == 1 || view.dims[2] == 1);
  }
  static bool is_state(const TensorView& view) {
    return view.type == ElementType::f32 && view.is_dense();
  }
  static void read(DenseOperand& copy, TensorView& view, bool fits) {
    if (fits) return;
    copy = DenseOperand(view, ElementType::f32);
    view = copy.view();
  }
  static void write(std::optional<F32Result>& copy, TensorView& view, bool fits) {
    if (fits) return;
    copy.emplace(view);
    view = dense_view(ElementType::f32, view.extents(), copy->data());
  }

  std::array<DenseOperand, 6> operands_;
  std::array<std::optional<F32Result>, 2> results_;
};

// Sets the kernel's problem; false if the op reports an error.
bool fits(const LinearRecurrence& r, LinearAttentionProblem& p) {
  if (r.rule.gated != r.decay.has_value() || r.rule.delta != r.beta.has_value()) return false;
  p.gated = r.rule.gated;
  p.delta = r.rule.delta;
  p.query_heads = r.heads;
  p.states = r.kv_heads;
  p.outputs = std::max(r.heads, r.kv_heads);
  p.keys = r.query.dims[2] / r.heads;
  p.values = r.value.dims[2] / r.kv_heads;
  p.key_heads = p.keys == 0 ? 0 : r.key.dims[2] / p.keys;
  p.decay_by_key = p.gated && r.decay->dims[2] != p.states;
  p.one_beta = p.delta && r.beta->dims[2] == 1;
  p.scale = static_cast<float>(r.scale != 0 ? r.scale : 1 / std::sqrt(static_cast<double>(p.keys)));
  const bool decays = !p.gated || !p.decay_by_key || r.decay->dims[2] == p.states * p.keys;
  const bool betas = !p.delta || p.one_beta || r.beta->dims[2] == p.states;
  return p.key_heads > 0 && p.states % p.key_heads == 0 && decays && betas;
}

LinearAttentionRows rows_of(const LinearRecurrence& r, int64_t b) {
  LinearAttentionRows x;
  const auto row = [&](const TensorView& view) { return view.as<float>() + b * view.strides[0]; };
  x.tokens = r.query.dims[1];
  x.q = row(r.query);
  x.q_stride = r.query.strides[1];
  x.k = row(r.key);
  x.k_stride = r.key.strides[1];
  x.v = row(r.value);
  x.v_stride = r.value.strides[1];
  if (r.decay) {
    x.decay = row(*r.decay);
    x.decay_stride = r.decay->strides[1];
  }
  if (r.beta) {
    x.beta = row(*r.beta);
    x.beta_stride = r.beta->strides[1];
  }
  x.y = row(r.y);
  x.y_stride = r.y.strides[1];
  if (r.past) x.past = row(*r.past);
  x.present = row(r.present);
  return x;
}

class LinearAttentionKernel final : public Kernel {
 public:
  LinearAttentionKernel(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        attributes_(InstructionReader(instruction)),
        sequences_(instruction.op() == ops::sequence_linear_attention),
        isa_(isa) {}

  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  bool uses_workspace() const override { return !sequences_; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    if (sequences_) return 0;
    ScratchLayout workspace;
    workspace.take<LinearAttentionRows>(most.in[0]->dims[0]);
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    if (sequences_) return launch_sequences(args);
    LinearRecurrence item = prepare_linear_attention(attributes_, LaunchViews(args));
    LinearAttentionProblem problem;
    if (!is_supported(item, problem)) return item.run(args.pool);
    Staging staging;
    staging.stage(item);
    const int64_t batch = item.query.dims[0];
    auto* rows = workspace_of(args).take<LinearAttentionRows>(batch);
    for (int64_t b = 0; b < batch; ++b) std::construct_at(rows + b, rows_of(item, b));
    run_linear_attention(problem, {rows, static_cast<size_t>(batch)}, isa_, args.pool);
    staging.finish();
  }

 private:
  // Without tokens the state is unchanged; errors are reported by the op.
  static bool is_supported(const LinearRecurrence& item, LinearAttentionProblem& problem) {
    return item.query.dims[1] != 0 && fits(item, problem);
  }

  void launch_sequences(const LaunchArgs& args) const {
    // Reused across launches.
    thread_local std::vector<LinearRecurrence> items;
    thread_local std::vector<LinearAttentionRows> rows;
    rows.clear();
    prepare_sequence_linear_attention(attributes_, origin_, LaunchViews(args), items);
    LinearAttentionProblem problem;
    std::vector<Staging> staging;
    for (LinearRecurrence& item : items) {
      if (!is_supported(item, problem)) {
        item.run(args.pool);
        continue;
      }
      if (Staging::is_needed(item)) staging.emplace_back().stage(item);
      for (int64_t b = 0; b < item.query.dims[0]; ++b) rows.push_back(rows_of(item, b));
    }
    run_linear_attention(problem, rows, isa_, args.pool);
    for (const Staging& item : staging) item.finish();
  }

  std::string name_;
  OpOrigin origin_;
  LinearAttentionAttributes attributes_;
  bool sequences_;
  Isa isa_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const ElementType type = element_of(instruction, 0);
  if (type != ElementType::f32)
    return fmt::format("operands are {}, supported: f32", to_string(type));
  for (const Value& result : instruction.results()) {
    if (result.type().element != ElementType::f32) return "the state is not f32";
  }
  if (attribute<int64_t>(instruction, "state_window") > 0) {
    return fmt::format("state_window is {}, supported: 0",
                       attribute<int64_t>(instruction, "state_window"));
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<LinearAttentionKernel>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kLinearAttention{ops::linear_attention, why_not, make};
const KernelEntry kSequenceLinearAttention{ops::sequence_linear_attention, why_not, make};

}  // namespace lathe::cpu
