// SPDX-License-Identifier: MIT
#include "targets/gpu/rows_prologue.h"

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/few_rows.h"
#include "targets/gpu/normalization.h"

namespace lathe::gpu {

RowsPrologue::RowsPrologue(const GpuDevice& device, const Anchor& whole) : norm_(whole.norm()) {
  if (norm_ == nullptr) return;
  kernel_ = make_norm(device, *norm_);
  scale_ = factor_of(whole, 1);
  if (is_centred(norm_->op())) bias_ = factor_of(whole, 2);
  epsilon_ = InstructionReader(*norm_).number("epsilon");
}

RowsPrologue::Factor RowsPrologue::factor_of(const Anchor& whole, size_t i) const {
  const int operand = whole.norm_operand(i);
  return operand < 0 ? Factor{} : Factor{operand, norm_->operands()[i]->type().element};
}

int64_t RowsPrologue::threads() const {
  if (norm_ == nullptr) return 0;
  const Type& type = norm_->result()->type();
  if (info(type.element).bits != 16) return 0;
  return norm_threads(type.dims->back().constant().value_or(0), info(type.element).bits / 8);
}

bool RowsPrologue::is_constant(Constants constants) const {
  const auto fits = [&](const Factor& factor) {
    return factor.operand < 0 || constants[static_cast<size_t>(factor.operand)] != nullptr;
  };
  return fits(scale_) && fits(bias_);
}

bool RowsPrologue::lies_whole(const LaunchArgs& args) const {
  const auto fits = [&](const Factor& factor) {
    if (factor.operand < 0) return true;
    const TensorView& view = *args.in[static_cast<size_t>(factor.operand)];
    return gpu::lies_whole(view.data, column_stride(&view), view.dims[view.rank - 1]);
  };
  return fits(scale_) && fits(bias_);
}

std::string RowsPrologue::text() const {
  if (norm_ == nullptr) return "#define NORM 0\n";
  const Type& type = norm_->result()->type();
  const int64_t columns = type.dims->back().constant().value_or(0);
  return fmt::format(
      "#define NORM 1\n#define CENTRED {}\n#define BIASED {}\n#define NORM_THREADS {}\ntypedef {} "
      "TN;\n"
      "typedef {} TM;\n",
      is_centred(norm_->op()) ? 1 : 0, bias_.operand >= 0 ? 1 : 0,
      norm_threads(columns, info(type.element).bits / 8), type_name(scale_.type),
      type_name(bias_.type));
}

void RowsPrologue::append_to(Arguments& arguments, const LaunchArgs& args) const {
  if (norm_ == nullptr) return;
  for (const Factor& factor : {scale_, bias_}) {
    const TensorView* view =
        factor.operand < 0 ? nullptr : args.in[static_cast<size_t>(factor.operand)];
    arguments.add(view == nullptr ? nullptr : view->data);
    arguments.add(column_stride(view));
  }
  arguments.add(epsilon_);
}

void RowsPrologue::normalise(const LaunchArgs& args, const TensorView& rows,
                             TensorView& out) const {
  const auto view = [&](const Factor& factor) {
    return factor.operand < 0 ? nullptr : args.in[static_cast<size_t>(factor.operand)];
  };
  const TensorView* const in[] = {&rows, view(scale_), view(bias_)};
  TensorView* const results[] = {&out, nullptr, nullptr};
  LaunchArgs inner = args;
  inner.in = in;
  inner.out = results;
  kernel_->launch(inner);
}

}  // namespace lathe::gpu
