// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/unfolded.h"

#include <algorithm>
#include <cstring>

#include "base/thread_scratch.h"
#include "tensor/convert.h"

namespace lathe::cpu {
namespace {

constexpr double kGain = 1.25;         // required of the estimate
constexpr double kLoads = 0.5;         // of a row of x, in multiplications of a vector
constexpr int64_t kLeastOutputs = 16;  // positions of a row after unfolding

ConvProblem unfold(ConvProblem p, int64_t fold) {
  ConvAxis& width = p.axes[2];
  width.kernel += (fold - 1) * width.stride;
  width.stride *= fold;
  width.output = (width.output + fold - 1) / fold;
  p.outputs *= fold;
  p.y_layout = ActivationLayout::channels_last;
  if (p.channels == 1) p.x_layout = ActivationLayout::channels_last;
  return p;
}

GemmType gemm_type(const ConvProblem& p) {
  return p.x_type == ElementType::bf16 ? GemmType::bf16 : GemmType::f32;
}

bool is_full(const EpilogueStep& step) {
  return step.kind != EpilogueStep::Kind::activate && step.operand.row_stride != 0;
}

}  // namespace

std::string why_not_unfolded(const ConvProblem& p, Isa isa) {
  if (p.is_integer() || p.transposed || p.groups != 1 || p.scales_x || p.axes[2].dilation != 1) {
    return fmt::format("{}: integers, scaled x, transposed, grouped or dilated", p.text());
  }
  // With one channel, both layouts are equal.
  if (p.y_layout != ActivationLayout::channels_last && p.outputs != 1) {
    return "y is not channels-last";
  }
  return why_not_direct(p, isa);
}

int64_t unfolding_of(const ConvProblem& p, Isa isa) {
  if (!why_not_unfolded(p, isa).empty() || isa == Isa::amx) return 1;
  const BrgemmKernel& kernel = brgemm_kernel(isa, gemm_type(p));
  const int64_t most = int64_t{kernel.panel_columns} * kernel.panels_per_tile / p.outputs;
  // Multiplications of vectors per output position and kernel row.
  const auto cost = [&](int64_t fold) {
    const int64_t panels = panel_count(kernel, p.outputs * fold);
    const int64_t taps = p.axes[2].kernel + (fold - 1) * p.axes[2].stride;
    return static_cast<double>(taps) * (static_cast<double>(panels) + kLoads) /
           static_cast<double>(fold);
  };
  int64_t best = 1;
  for (int64_t fold = 2; fold <= std::min(most, p.axes[2].output / kLeastOutputs); ++fold) {
    if (cost(fold) < cost(best)) best = fold;
  }
  return cost(best) * kGain < cost(1) ? best : 1;
}

namespace {

ConvProblem in_f32(ConvProblem problem) {
  problem.y_type = ElementType::f32;
  return problem;
}

}  // namespace

UnfoldedConvolution::UnfoldedConvolution(const ConvProblem& problem, Isa isa)
    : p_(problem),
      isa_(isa),
      fold_(unfolding_of(problem, isa)),
      inner_(unfold(problem, fold_), isa),
      apart_(unfold(in_f32(problem), fold_), isa) {}

std::string UnfoldedConvolution::packing_id() const {
  return fmt::format("{} unfolded {} of stride {}", inner_.packing_id(), fold_, p_.axes[2].stride);
}

void UnfoldedConvolution::pack(const ConvWeights& weights, void* to, ThreadPool* pool) const {
  const auto& [depth, height, width] = p_.axes;
  const int64_t bytes = info(weights.type).bits / 8;
  const int64_t rows = p_.channels * depth.kernel * height.kernel;  // of one output
  const int64_t wide = width.kernel + (fold_ - 1) * width.stride;
  std::vector<std::byte> unfolded(static_cast<size_t>(fold_ * p_.outputs * rows * wide * bytes));
  std::byte* next = unfolded.data();
  for (int64_t j = 0; j < fold_; ++j) {
    const auto* from = static_cast<const std::byte*>(weights.data);
    for (int64_t row = 0; row < p_.outputs * rows; ++row) {
      std::memcpy(next + j * width.stride * bytes, from, static_cast<size_t>(width.kernel * bytes));
      from += width.kernel * bytes;
      next += wide * bytes;
    }
  }
  inner_.pack({unfolded.data(), weights.type, nullptr}, to, pool);
}

void UnfoldedConvolution::run(const ConvCall& call) const {
  const bool full = std::ranges::any_of(call.epilogue.steps, is_full);
  const int64_t places = (p_.axes[2].output + fold_ - 1) / fold_ * fold_;
  const int64_t image_rows = p_.axes[0].output * p_.axes[1].output;
  const int64_t rows = p_.batch * image_rows;
  // Code expects operands as they are.
  const bool apart = (full && !is_whole()) || call.epilogue.code != nullptr;
  const ElementType out = apart ? ElementType::f32 : call.epilogue.out;
  const int64_t pitch = places * p_.outputs * out_size(out);
  const ScratchBlock memory(is_whole() && !apart ? 0 : rows * pitch);
  if (apart) return run_apart(call, memory.data());
  // Operands per output repeat.
  const int64_t outputs = p_.outputs * fold_;
  const ScratchArray<float> columns(outputs * std::ssize(call.epilogue.steps));
  const ScratchArray<EpilogueStep> steps(std::ssize(call.epilogue.steps));
  std::ranges::copy(call.epilogue.steps, steps.begin());
  float* next = columns.data();
  for (EpilogueStep& step : steps) {
    Operand& operand = step.operand;
    if (is_full(step)) {
      operand.row_stride *= fold_;
      operand.column_stride = 1;
    }
    if (operand.data == nullptr || operand.row_stride != 0 || operand.column_stride == 0) continue;
    const int64_t bytes = info(operand.type).bits / 8;
    for (int64_t i = 0; i < outputs; ++i) {
      convert(ElementType::f32, next + i, operand.type,
              static_cast<const std::byte*>(operand.data) +
                  i % p_.outputs * operand.column_stride * bytes,
              1);
    }
    operand.data = next;
    operand.type = ElementType::f32;
    operand.column_stride = 1;
    next += outputs;
  }
  ConvCall inner = call;
  inner.epilogue.steps = {steps.data(), steps.size()};
  inner.y = is_whole() ? call.y : memory.data();
  inner_.run(inner);
  if (is_whole()) return;
  const int64_t row_bytes = p_.axes[2].output * p_.outputs * out_size(out);
  parallel_for(call.pool, rows, std::max<int64_t>(1, (1 << 16) / pitch),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   std::memcpy(static_cast<std::byte*>(call.y) + row * row_bytes,
                               memory.data() + row * pitch, static_cast<size_t>(row_bytes));
                 }
               });
}

// The unfolded rows are longer than those of the epilogue's operands: a second pass applies it.
void UnfoldedConvolution::run_apart(const ConvCall& call, std::byte* sums) const {
  ConvCall inner = call;
  inner.epilogue = {};
  inner.operand_images = {};
  inner.y = sums;
  apart_.run(inner);
  const int64_t columns = p_.axes[2].output;
  const int64_t places = (columns + fold_ - 1) / fold_ * fold_;
  const int64_t image_rows = p_.axes[0].output * p_.axes[1].output;
  const int64_t out_bytes = p_.outputs * out_size(call.epilogue.out);
  const FinishTile finish = finish_tile(isa_);
  parallel_for(call.pool, p_.batch * image_rows, 1, [&](int64_t begin, int64_t end) {
    const ScratchArray<EpilogueStep> steps(std::ssize(call.epilogue.steps));
    std::ranges::copy(call.epilogue.steps, steps.begin());
    Epilogue epilogue = call.epilogue;
    epilogue.steps = {steps.data(), steps.size()};
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / image_rows;
      for (size_t i = 0; i < call.operand_images.size(); ++i) {
        const Operand& operand = call.epilogue.steps[i].operand;
        if (operand.data == nullptr) continue;
        steps[i].operand.data = static_cast<const std::byte*>(operand.data) +
                                image * call.operand_images[i] * info(operand.type).bits / 8;
      }
      finish(epilogue, {.sums = reinterpret_cast<const float*>(sums) + row * places * p_.outputs,
                        .sums_stride = p_.outputs,
                        .rows = columns,
                        .columns = p_.outputs,
                        .row = row % image_rows * columns,
                        .out = static_cast<std::byte*>(call.y) + row * columns * out_bytes,
                        .out_stride = out_bytes});
    }
  });
}

}  // namespace lathe::cpu
