// SPDX-License-Identifier: MIT
// Normalisations of rows.
#include "targets/gpu/normalization.h"

#include <algorithm>
#include <bit>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "targets/gpu/expression.h"

namespace lathe::gpu {
namespace {

constexpr size_t kAxes = 16;
constexpr int64_t kPieceBytes = 16;

bool is_small_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

// The operands of a normalisation; -1: none.
struct NormOperands {
  const Op& op;
  bool centred = false;
  int scale = 1;
  int bias = -1;
  int skip = -1;
  int skip_bias = -1;
  int mean = -1;  // results
  int inverse = -1;
  int sum = -1;
};

const NormOperands* norm_of(const Op& op) {
  static const NormOperands all[] = {
      {.op = ops::layer_normalization, .centred = true, .bias = 2, .mean = 1, .inverse = 2},
      {.op = ops::rms_normalization},
      {.op = ops::simplified_layer_normalization, .inverse = 1},
      {.op = ops::skip_layer_normalization,
       .centred = true,
       .scale = 2,
       .bias = 3,
       .skip = 1,
       .skip_bias = 4,
       .mean = 1,
       .inverse = 2,
       .sum = 3},
      {.op = ops::skip_simplified_layer_normalization,
       .scale = 2,
       .skip = 1,
       .skip_bias = 3,
       .inverse = 2,
       .sum = 3},
  };
  const auto* at = std::ranges::find_if(all, [&](const NormOperands& n) { return n.op == op; });
  return at == std::end(all) ? nullptr : at;
}

// Axes of rows. Those that follow each other in all views are one.
class RowAxes {
 public:
  RowAxes(const TensorView& x, std::initializer_list<const TensorView*> views) {
    for (int axis = 0; axis + 1 < x.rank; ++axis) {
      if (x.dims[axis] == 1) continue;
      const bool joined = count_ > 0 && std::ranges::all_of(views, [&](const TensorView* view) {
                            return view == nullptr || view->strides[last_[count_ - 1]] ==
                                                          view->strides[axis] * x.dims[axis];
                          });
      const size_t at = joined ? count_ - 1 : count_++;
      sizes_[at] = joined ? sizes_[at] * x.dims[axis] : x.dims[axis];
      last_[at] = axis;
    }
  }
  int64_t rank() const { return static_cast<int64_t>(count_); }
  std::span<const int64_t> sizes() const { return {sizes_.data(), count_}; }
  std::span<const int64_t> strides_of(const TensorView& view) {
    for (size_t i = 0; i < count_; ++i) strides_[i] = view.strides[static_cast<size_t>(last_[i])];
    return {strides_.data(), count_};
  }

 private:
  size_t count_ = 0;
  std::array<int64_t, kAxes> sizes_{};
  std::array<int64_t, kAxes> strides_{};
  std::array<int, kAxes> last_{};
};

class NormKernel final : public GpuKernel {
 public:
  NormKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)),
        norm_(*norm_of(instruction.op())),
        epsilon_(InstructionReader(instruction).number("epsilon")) {
    const InstructionReader reader(instruction);
    const auto type_of = [&](int i) {
      return type_name(i >= 0 && reader.has(i)
                           ? instruction.operands()[static_cast<size_t>(i)]->type().element
                           : instruction.operands()[0]->type().element);
    };
    for (const Value& result : instruction.results()) used_.push_back(!result.uses().empty());
    const auto source = [&](int64_t groups) {
      return Source{
          "normalization",
          fmt::format("#define GROUPS {}\n#define CENTRED {}\n#define SKIP {}\n#define SKIP_BIAS "
                      "{}\ntypedef {} T;\ntypedef {} TS;\ntypedef {} TB;\n{}",
                      groups, norm_.centred ? 1 : 0, norm_.skip >= 0 ? 1 : 0,
                      norm_.skip_bias >= 0 && reader.has(norm_.skip_bias) ? 1 : 0, type_of(0),
                      type_of(norm_.scale), type_of(norm_.bias), kernel_text("normalization.gpu"))};
    };
    code_.emplace(device, source(0), true);
    // Many rows of few pieces: groups of threads take them, without barriers.
    const Type& type = instruction.operands()[0]->type();
    const std::optional<int64_t> columns = type.dims->back().constant();
    constexpr int64_t kMostBytes = 4096;
    const int64_t bytes = info(type.element).bits / 8;
    if (columns && *columns * bytes <= kMostBytes) {
      // A group beyond the columns would add zeros.
      const int64_t per_group = kGroup * kPieceBytes / bytes;
      int64_t rows = 1;
      for (const Dim& dim : std::span(*type.dims).first(type.dims->size() - 1)) {
        rows *= dim.constant().value_or(kGroup);
      }
      rows_code_.emplace(device, source((*columns + per_group - 1) / per_group), rows >= kGroup);
    }
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    if (x.count() == 0) return;
    const int last = x.rank - 1;
    const int64_t rows = x.count() / x.dims[last];
    Arguments arguments;
    arguments.add(rows);
    arguments.add(x.dims[last]);
    arguments.add(epsilon_);
    const auto operand = [&](int i) {
      return i >= 0 && args.has(static_cast<size_t>(i)) ? args.in[static_cast<size_t>(i)] : nullptr;
    };
    // Whether rows and vectors consist of aligned words.
    const int64_t per = kPieceBytes / (info(x.type).bits / 8);
    bool lie_in_words = x.dims[last] % per == 0;
    const auto check_words = [&](const TensorView* view) {
      if (view == nullptr) return;
      const int64_t bytes = info(view->type).bits / 8;
      const int64_t alignment = std::min(kPieceBytes, per * bytes);
      lie_in_words =
          lie_in_words && column_stride(view) == 1 &&
          reinterpret_cast<uintptr_t>(view->data) % static_cast<uintptr_t>(alignment) == 0;
      for (int axis = 0; axis + 1 < view->rank; ++axis) {
        lie_in_words =
            lie_in_words && (view->dims[axis] == 1 || view->strides[axis] * bytes % alignment == 0);
      }
    };
    const auto add_vector = [&](int i) {
      const TensorView* view = operand(i);
      check_words(view);
      arguments.add(view == nullptr ? nullptr : view->data);
      arguments.add(column_stride(view));
    };
    const auto result = [&](int i) -> const TensorView* {
      return i >= 0 && used_[static_cast<size_t>(i)] ? args.out[static_cast<size_t>(i)] : nullptr;
    };
    RowAxes axes(x, {&x, operand(norm_.skip), args.out[0], result(norm_.sum), result(norm_.mean),
                     result(norm_.inverse)});
    arguments.add(axes.rank());
    arguments.add(axes.sizes(), kAxes, 1);
    check_words(&x);
    check_words(operand(norm_.skip));
    check_words(args.out[0]);
    check_words(result(norm_.sum));
    const auto add_matrix = [&](const TensorView* view) {
      arguments.add(view == nullptr ? nullptr : view->data);
      if (view == nullptr) {
        arguments.add({}, kAxes + 1);
      } else {
        arguments.add(axes.strides_of(*view), kAxes);
        arguments.add(view->strides[last]);
      }
    };
    add_matrix(&x);
    add_matrix(operand(norm_.skip));
    add_vector(norm_.skip_bias);
    add_vector(norm_.scale);
    add_vector(norm_.bias);
    add_matrix(args.out[0]);
    add_matrix(result(norm_.sum));
    add_matrix(result(norm_.mean));
    add_matrix(result(norm_.inverse));
    const int64_t sums = norm_threads(x.dims[last], info(x.type).bits / 8);
    arguments.add(sums);
    const int64_t multiprocessors = device_.driver().limits().multiprocessors;
    if (rows_code_ && rows >= kGroup && axes.rank() <= 1 && lie_in_words) {
      constexpr int64_t kMostRows = 4;  // of a block
      const auto threads =
          static_cast<uint32_t>(kGroup * std::clamp<int64_t>(rows / multiprocessors, 1, kMostRows));
      const int64_t blocks = (rows * kGroup + threads - 1) / threads;
      return enqueue(rows_code_->get(), args, arguments, {static_cast<uint32_t>(blocks), 1, 1},
                     threads);
    }
    // Where there are rows enough to fill the device, a thread has two sums.
    constexpr int64_t kLeast = 32;
    const bool two = rows > multiprocessors && sums > kLeast;
    const auto threads = static_cast<uint32_t>(two ? sums / 2 : sums);
    enqueue(code_->get(), args, arguments, {blocks_for(rows * threads, threads), 1, 1}, threads);
  }

 private:
  const NormOperands& norm_;
  double epsilon_;
  std::vector<bool> used_;
  static constexpr int64_t kGroup = 32;  // threads that exchange values
  std::optional<LazyCode> code_;
  std::optional<LazyCode> rows_code_;
};

KernelChoice choose_norm(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {make_norm(device, instruction), ""};
}

}  // namespace

int64_t norm_threads(int64_t columns, int64_t bytes) {
  constexpr int64_t kLeast = 32;
  constexpr int64_t kMost = 512;
  const int64_t pieces = (columns * bytes + kPieceBytes - 1) / kPieceBytes;
  const auto wanted = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(pieces, 1)));
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), kLeast, kMost);
}

int64_t column_stride(const TensorView* view) {
  return view == nullptr || view->rank == 0 || view->dims[view->rank - 1] == 1
             ? int64_t{0}
             : view->strides[view->rank - 1];
}

bool is_centred(const Op& op) { return norm_of(op)->centred; }

bool is_norm(const Op& op) {
  const NormOperands* norm = norm_of(op);
  return norm != nullptr && norm->skip < 0;
}

std::string why_no_norm(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const NormOperands& norm = *norm_of(instruction.op());
  const InstructionReader reader(instruction);
  const Type& type = instruction.operands()[0]->type();
  if (type.rank() == 0) return "a scalar";
  if (find_attribute(instruction.attributes(), "axis") != nullptr &&
      reader.axis("axis", type.rank()) != type.rank() - 1) {
    return "it normalises several axes";
  }
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr && !is_small_float(operand->type().element)) return "f64 is expanded";
  }
  for (const int i : {norm.scale, norm.bias, norm.skip_bias}) {
    if (i < 0 || !reader.has(i)) continue;
    const Type& own = instruction.operands()[static_cast<size_t>(i)]->type();
    if (own.rank() > 1 || (own.rank() == 1 && !(own.dims->back() == type.dims->back()))) {
      return "factors are not per column";
    }
  }
  for (const int i : {norm.skip, norm.skip_bias}) {
    if (i < 0 || !reader.has(i)) continue;
    if (!(instruction.operands()[static_cast<size_t>(i)]->type().element == type.element)) {
      return "the operands of the sum have several types";
    }
  }
  if (norm.skip >= 0 &&
      !(*instruction.operands()[static_cast<size_t>(norm.skip)]->type().dims == *type.dims)) {
    return "the operands of the sum have several shapes";
  }
  for (size_t i = 1; i < instruction.results().size(); ++i) {
    const Value& result = instruction.results()[i];
    const bool sum = static_cast<int>(i) == norm.sum;
    const bool known =
        sum || static_cast<int>(i) == norm.mean || static_cast<int>(i) == norm.inverse;
    if (result.uses().empty()) continue;
    if (!known || result.type().element != (sum ? type.element : ElementType::f32)) {
      return fmt::format("result {} is used", i);
    }
  }
  return "";
}

std::unique_ptr<const Kernel> make_norm(const GpuDevice& device, const Instruction& instruction) {
  return std::make_unique<NormKernel>(device, instruction);
}

extern const KernelEntry kNorms[];
extern const size_t kNormCount;
const KernelEntry kNorms[] = {
    {ops::layer_normalization, why_no_norm, choose_norm},
    {ops::rms_normalization, why_no_norm, choose_norm},
    {ops::simplified_layer_normalization, why_no_norm, choose_norm},
    {ops::skip_layer_normalization, why_no_norm, choose_norm},
    {ops::skip_simplified_layer_normalization, why_no_norm, choose_norm},
};
const size_t kNormCount = std::size(kNorms);

}  // namespace lathe::gpu
