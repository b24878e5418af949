// SPDX-License-Identifier: MIT
// Products with weights of 2, 4 or 8 bits.
#include <algorithm>
#include <array>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/few_rows.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

enum Operand : size_t { kA, kCodes, kScales, kZeros, kGroups, kBias };

constexpr std::array<size_t, 3> kWeights{kCodes, kScales, kZeros};
ElementType element_of(const Instruction& instruction, size_t operand) {
  return InstructionReader(instruction).has(static_cast<int>(operand))
             ? instruction.operands()[operand]->type().element
             : ElementType::f32;
}

// The one stride of all axes but the last; nullopt if there is none.
std::optional<int64_t> row_stride(const TensorView& view) {
  std::optional<int64_t> stride;
  int64_t expected = 0;
  for (int axis = view.rank - 1; axis-- > 0;) {
    if (view.dims[axis] == 1) continue;
    if (stride && view.strides[axis] != expected) return std::nullopt;
    if (!stride) stride = view.strides[axis];
    expected = view.strides[axis] * view.dims[axis];
  }
  return stride ? stride : std::optional<int64_t>(0);
}

class NBitsKernel final : public GpuKernel {
 public:
  NBitsKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, "matmul_n_bits"), copier_(device) {
    const InstructionReader reader(instruction);
    k_ = reader.integer("k");
    n_ = reader.integer("n");
    bits_ = reader.integer("bits");
    block_ = reader.integer("block_size");
    blocks_ = (k_ + block_ - 1) / block_;
    const std::string& compute = reader.text("compute_type");
    const bool integers = compute == "int8";
    has_zeros_ = reader.has(kZeros);
    has_bias_ = reader.has(kBias);
    const ElementType zeros = element_of(instruction, kZeros);
    const auto name = [&](size_t operand) { return type_name(element_of(instruction, operand)); };
    const std::string text = fmt::format(
        "typedef {} T;\ntypedef {} TS;\ntypedef {} TZ;\ntypedef {} TB;\n#define BITS {}\n"
        "#define BLOCK {}\n#define ZEROS {}\n#define INTEGERS {}\n#define BF16 {}\n",
        type_name(instruction.result()->type().element), name(kScales), type_name(zeros),
        name(kBias), bits_, block_,
        !has_zeros_                ? 0
        : zeros == ElementType::u8 ? 1
                                   : 2,
        integers ? 1 : 0, compute == "bf16" ? 1 : 0);
    constexpr int64_t kBytes = 16;
    const FewRowsProblem problem{
        .n = n_,
        .depth = blocks_ * block_,
        .bits = bits_,
        .piece = integers ? kBytes : kBytes * 8 / info(instruction.result()->type().element).bits,
        .block = block_};
    const auto get = [&](int64_t rows, FewRows& shape) {
      shape = few_rows(rows, problem, device.driver().limits().multiprocessors);
      return device.code().get(
          {"n_bits", text + shape.text() + std::string(kernel_text("n_bits.gpu"))});
    };
    one_row_ = get(1, one_shape_);
    many_rows_ = get(kManyRows, many_shape_);
  }
  bool uses_workspace() const override { return true; }
  // Dense copies of a and y, where they have no rows of one stride, and of weights that are not
  // dense.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const TensorView& a = *most.in[kA];
    const int64_t m = k_ == 0 ? 0 : a.count() / k_;
    int64_t dense = rounded(bytes_for(a.type, m * k_)) + rounded(bytes_for(a.type, m * n_));
    for (const size_t operand : kWeights) {
      if (!most.has(operand) || is_plain(operand, *most.in[operand])) continue;
      dense += rounded(bytes_for(most.in[operand]->type, most.in[operand]->count()));
    }
    return dense;
  }

  void launch(const LaunchArgs& args) const override {
    TensorView a = *args.in[kA];
    TensorView y = *args.out[0];
    if (y.count() == 0) return;
    const int64_t m = y.count() / n_;
    auto* place = static_cast<std::byte*>(args.workspace);
    const auto dense = [&](const TensorView& view) {
      const TensorView own = dense_view(view.type, view.extents(), place);
      place += rounded(bytes_for(view.type, view.count()));
      return own;
    };
    if (!row_stride(a)) {
      const TensorView own = dense(a);
      copier_.copy(*args.stream, a, own);
      a = own;
    }
    const auto weights_of = [&](size_t operand) -> const void* {
      const TensorView& view = *args.in[operand];
      if (is_plain(operand, view)) return view.data;
      const TensorView own = dense(view);
      copier_.copy(*args.stream, view, own);
      return own.data;
    };
    const bool scattered = !row_stride(y);
    if (scattered) y = dense(y);
    Arguments arguments;
    arguments.add(a.data);
    arguments.add(*row_stride(a));
    arguments.add(a.strides[static_cast<size_t>(a.rank - 1)]);
    arguments.add(y.data);
    arguments.add(*row_stride(y));
    arguments.add(y.strides[static_cast<size_t>(y.rank - 1)]);
    for (const int64_t value : {m, n_, k_, blocks_}) arguments.add(value);
    for (const size_t operand : kWeights) {
      arguments.add(args.has(operand) ? weights_of(operand) : nullptr);
    }
    arguments.add((blocks_ * bits_ + 7) / 8);
    arguments.add(has_bias_ ? args.in[kBias]->data : nullptr);
    arguments.add(has_bias_ ? args.in[kBias]->strides[static_cast<size_t>(args.in[kBias]->rank - 1)]
                            : 0);
    const FewRows& shape = m == 1 ? one_shape_ : many_shape_;
    enqueue(m == 1 ? *one_row_ : *many_rows_, args, arguments, shape.grid(m, n_), kThreads);
    if (scattered) copier_.copy(*args.stream, y, *args.out[0]);
  }

 private:
  bool is_plain(size_t operand, const TensorView& view) const {
    if (!view.is_dense()) return false;
    const auto alignment = static_cast<size_t>(std::max(one_shape_.load, many_shape_.load));
    return operand != kCodes || reinterpret_cast<uintptr_t>(view.data) % alignment == 0;
  }
  static int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  ElementCopier copier_;
  int64_t k_ = 0;
  int64_t n_ = 0;
  int64_t bits_ = 0;
  int64_t block_ = 0;
  int64_t blocks_ = 0;
  bool has_zeros_ = false;
  bool has_bias_ = false;
  FewRows one_shape_;
  FewRows many_shape_;
  std::shared_ptr<const Code> one_row_;
  std::shared_ptr<const Code> many_rows_;
};

std::string why_no_n_bits(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const InstructionReader reader(instruction);
  if (reader.has(kGroups)) return "its weights are permuted by g_idx";
  if (instruction.result()->type().element == ElementType::f64) return "f64";
  for (const size_t operand : {size_t{kScales}, size_t{kZeros}, size_t{kBias}}) {
    if (element_of(instruction, operand) == ElementType::f64) return "an operand is f64";
  }
  // quantise_stage: 32 threads of 8 elements find the largest of a block.
  constexpr int64_t kMostBlock = 256;
  const int64_t block = reader.integer("block_size");
  if (reader.text("compute_type") == "int8" && block > kMostBlock) {
    return fmt::format("int8 with blocks of {} weights: at most {}", block, kMostBlock);
  }
  return "";
}

KernelChoice make_n_bits(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<NBitsKernel>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kNBits;
const KernelEntry kNBits{ops::matmul_n_bits, why_no_n_bits, make_n_bits};

}  // namespace lathe::gpu
