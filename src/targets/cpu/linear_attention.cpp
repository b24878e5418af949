// SPDX-License-Identifier: MIT
// linear_attention and sequence_linear_attention.
#include "targets/cpu/kernels/recurrent/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/support/linear_attention.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

// Copies operands and results that do not match the kernels' layout: f32, contiguous tokens, dense
// states. finish() copies the results back.
class Staging {
 public:
  void stage(LinearRecurrence& r) {
    for (TensorView* view : {&r.query, &r.key, &r.value}) read(*view, has_dense_tokens(*view));
    for (std::optional<TensorView>* view : {&r.decay, &r.beta}) {
      if (*view) read(**view, has_dense_tokens(**view));
    }
    if (r.past) read(*r.past, r.past->is_dense());
    write(r.y, has_dense_tokens(r.y));
    write(r.present, r.present.is_dense());
  }
  void finish() const {
    for (const auto& [tensor, to] : results_) {
      const Tensor given(to.type, Dims(to.extents().begin(), to.extents().end()));
      convert(to.type, given.data(), ElementType::f32, tensor.data(), tensor.count());
      copy_elements(given.view(), to);
    }
  }

 private:
  static bool has_dense_tokens(const TensorView& view) {
    return view.strides[2] == 1 || view.dims[2] == 1;
  }
  static Tensor tensor_for(const TensorView& view) {
    return Tensor(ElementType::f32, Dims(view.extents().begin(), view.extents().end()));
  }
  void read(TensorView& view, bool fits) {
    if (fits && view.type == ElementType::f32) return;
    operands_.push_back(tensor_for(view));
    const Tensor given(view.type, Dims(view.extents().begin(), view.extents().end()));
    copy_elements(view, given.view());
    convert(ElementType::f32, operands_.back().data(), view.type, given.data(), given.count());
    view = operands_.back().view();
  }
  void write(TensorView& view, bool fits) {
    if (fits && view.type == ElementType::f32) return;
    results_.emplace_back(tensor_for(view), view);
    view = results_.back().first.view();
  }

  std::vector<Tensor> operands_;
  std::vector<std::pair<Tensor, TensorView>> results_;
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
        sequences_(instruction.op().name == "sequence_linear_attention"),
        isa_(isa) {}

  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(Evaluation& c) const override {
    // Reused across launches.
    thread_local std::vector<LinearRecurrence> items;
    thread_local std::vector<LinearAttentionRows> rows;
    items.clear();
    rows.clear();
    if (sequences_) {
      prepare_sequence_linear_attention(c, items);
    } else {
      items.push_back(prepare_linear_attention(c));
    }
    LinearAttentionProblem problem;
    Staging staging;
    for (LinearRecurrence& item : items) {
      // Without tokens the state is unchanged; errors are reported by the op.
      if (item.query.dims[1] == 0 || !fits(item, problem)) {
        item.run(c.pool);
        continue;
      }
      staging.stage(item);
      for (int64_t b = 0; b < item.query.dims[0]; ++b) rows.push_back(rows_of(item, b));
    }
    run_linear_attention(problem, rows, isa_, c.pool);
    staging.finish();
  }

 private:
  std::string name_;
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

const KernelEntry kLinearAttention{"linear_attention", why_not, make};
const KernelEntry kSequenceLinearAttention{"sequence_linear_attention", why_not, make};

}  // namespace lathe::cpu
