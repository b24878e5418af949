// SPDX-License-Identifier: MIT
// Products with weights of 2, 4 or 8 bits.
#include <algorithm>
#include <array>
#include <bit>

#include "ir/ops.h"
#include "ops/support/views.h"
#include "targets/gpu/anchor.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/few_rows.h"
#include "targets/gpu/normalization.h"
#include "targets/gpu/quantised_product.h"
#include "targets/gpu/rows_prologue.h"
#include "targets/gpu/unpacked_product.h"

namespace lathe::gpu {
namespace {

enum Operand : size_t { kA, kCodes, kScales, kZeros, kGroups, kBias };

// 32 threads of 8 elements find the largest of a block that is quantised.
constexpr int64_t kMostBlock = 256;

constexpr std::array<size_t, 3> kWeights{kCodes, kScales, kZeros};
ElementType element_of(const Instruction& instruction, size_t operand) {
  return InstructionReader(instruction).has(static_cast<int>(operand))
             ? instruction.operands()[operand]->type().element
             : ElementType::f32;
}

// What a side of an epilogue has for each element of a result.
TensorView broadcast(TensorView view, const TensorView& result) {
  TensorView out = result;
  out.data = view.data;
  out.type = view.type;
  for (int axis = 0; axis < result.rank; ++axis) {
    const int own = axis - (result.rank - view.rank);
    out.strides[axis] = own < 0 || view.dims[own] == 1 ? 0 : view.strides[own];
  }
  return out;
}

class NBitsKernel final : public GpuKernel {
 public:
  NBitsKernel(const GpuDevice& device, const Instruction& instruction, Constants constants)
      : GpuKernel(device, ""), whole_(instruction), prologue_(device, whole_), copier_(device) {
    name_ += whole_.label();
    const Instruction& anchor = whole_.anchor();
    const InstructionReader reader(anchor);
    const int64_t k = reader.integer("k");
    const int64_t block = reader.integer("block_size");
    shape_ = {.n = reader.integer("n"),
              .k = k,
              .bits = reader.integer("bits"),
              .block = block,
              .blocks = (k + block - 1) / block};
    const std::string& compute = reader.text("compute_type");
    const bool integers = compute == "int8";
    const bool has_zeros = reader.has(kZeros);
    const ElementType zeros = element_of(anchor, kZeros);
    const auto name = [&](size_t operand) { return type_name(element_of(anchor, operand)); };
    const std::string weights = fmt::format(
        "typedef {} T;\ntypedef {} TS;\ntypedef {} TZ;\ntypedef {} TB;\n#define BITS {}\n"
        "#define BLOCK {}\n#define ZEROS {}\n#define INTEGERS {}\n#define BF16 {}\n",
        type_name(instruction.result()->type().element), name(kScales), type_name(zeros),
        name(kBias), shape_.bits, block,
        !has_zeros                 ? 0
        : zeros == ElementType::u8 ? 1
                                   : 2,
        integers ? 1 : 0, compute == "bf16" ? 1 : 0);
    const auto kernel_of = [&](bool quantises, std::string_view file) {
      return Anchor::kernel_with("n_bits_weights.gpu", whole_.epilogue_text("float", "")) +
             (quantises ? std::string(kernel_text("quantised_elements.gpu")) : "") +
             std::string(kernel_text(file));
    };
    const std::string kernel = kernel_of(integers, "n_bits.gpu");
    const std::string text = fmt::format(
        "{}#define UNPACK 0\n#define FINISH 0\n#define TWIN {}\n#define SIDES {}\n{}", weights,
        whole_.twin() != nullptr ? 1 : 0, whole_.sides().size(), prologue_.text());
    constexpr int64_t kBytes = 16;
    FewRowsProblem problem{.n = shape_.n,
                           .depth = shape_.blocks * block,
                           .bits = shape_.bits,
                           .products = whole_.twin() == nullptr ? 1 : 2,
                           .block = block,
                           .norm_threads = prologue_.threads()};
    const int64_t element_bits = info(instruction.result()->type().element).bits;
    // Floats of 16 bits are quantised to as many.
    const bool widens = !integers && element_bits == 16 && shape_.bits == 8 &&
                        block <= kMostBlock && std::has_single_bit(static_cast<uint64_t>(block));
    const auto source = [&](int64_t rows, bool whole, FewRows& shape) {
      constexpr int64_t kMostAhead = 4;  // as kernels/n_bits.gpu has it
      problem.ahead = rows == 1 ? kMostAhead : 1;
      const auto find_shape = [&](int64_t planes) {
        problem.planes = planes;
        problem.piece = planes > 0 ? kBytes : kBytes * 8 / element_bits;
        shape = few_rows(rows, problem, device.driver().limits().multiprocessors);
      };
      if (widens && rows == 1) find_shape(2);
      if (!shape.quantised) find_shape(integers ? 1 : 0);
      shape.whole = whole;
      return Source{"n_bits", fmt::format("{}#define THREADS {}\n", text, shape.threads) +
                                  shape.text() +
                                  (shape.quantised ? kernel_of(true, "n_bits_row.gpu") : kernel)};
    };
    overlaps_ = prologue_.is_constant(constants);
    for (const bool of_twin : {false, true}) {
      for (const size_t operand : kWeights) {
        const int at = of_twin ? whole_.twin_operand(operand) : whole_.operand(operand);
        overlaps_ = overlaps_ && (at < 0 || constants[static_cast<size_t>(at)] != nullptr);
      }
    }
    const bool whole = lies_whole(nullptr, 1, k);
    scattered_row_.emplace(device, source(1, false, one_shape_), !whole);
    one_row_.emplace(device, source(1, whole, one_shape_), true);
    constexpr int64_t kPieceCodes = 32;  // as kernels/n_bits.gpu takes them
    const bool fits = shape_.bits == 4 && block % kPieceCodes == 0;
    // AMD's fragments of bytes have other forms.
    if (integers && shape_.bits == 4 && block == QuantisedProduct::kBlock &&
        device.driver().vendor() != Vendor::hip) {
      quantised_.emplace(device, whole_, shape_, weights);
    } else if (info(instruction.result()->type().element).bits == 16 && fits) {
      constexpr int64_t kWaves = 4;
      fragment_threads_ = static_cast<uint32_t>(kWaves * device.driver().limits().wave);
      fragments_.emplace(
          device,
          Source{"n_bits",
                 fmt::format("{}#define THREADS {}\n#define WAVES {}\n#define UNPACK 0\n#define "
                             "FINISH 0\n#define NORM 0\n#define FRAGMENTS 1\n#define TWIN "
                             "{}\n#define SIDES {}\n{}{}",
                             weights, fragment_threads_, kWaves, whole_.twin() != nullptr ? 1 : 0,
                             whole_.sides().size(), kernel_text("fragments.gpu"), kernel)},
          true);
    }
    many_rows_.emplace(device, source(kManyRows, false, many_shape_), !fragments_ && !quantised_);
    unpacked_.emplace(device, whole_, shape_, weights);
  }
  bool uses_workspace() const override { return true; }
  // Dense copies of a, y and sides, where they have no rows of one stride, and of weights that are
  // not dense.
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    const TensorView& a = *most.in[static_cast<size_t>(whole_.operand(kA))];
    const int64_t m = shape_.k == 0 ? 0 : a.count() / shape_.k;
    int64_t dense =
        rounded(bytes_for(a.type, m * shape_.k)) + rounded(bytes_for(a.type, m * shape_.n));
    for (const int side : whole_.sides()) {
      dense += rounded(bytes_for(most.in[static_cast<size_t>(side)]->type, m * shape_.n));
    }
    for (const bool of_twin : {false, true}) {
      for (const size_t operand : kWeights) {
        const TensorView* view = weights_of(most, operand, of_twin);
        if (view == nullptr || is_plain(operand, *view)) continue;
        dense += rounded(bytes_for(view->type, view->count()));
      }
    }
    // A launch may have fewer rows, also where the most are unpacked.
    const int64_t few = std::min(m, kFewRows);
    const int64_t own = rounded(bytes_for(a.type, few * shape_.k)) +
                        (quantised_ ? quantised_->workspace_bytes(few) : 0);
    return dense + (m > kFewRows ? std::max(own, unpacked_->workspace_bytes(m)) : own);
  }
  std::string detail() const override {
    return unpacked_->by_library() ? "cuBLASLt where there are many rows" : "";
  }

  void launch(const LaunchArgs& args) const override {
    TensorView a = *args.in[static_cast<size_t>(whole_.operand(kA))];
    TensorView y = *args.out[0];
    if (y.count() == 0) return;
    const int64_t m = y.count() / shape_.n;
    auto* place = static_cast<std::byte*>(args.workspace);
    const auto dense = [&](const TensorView& view) {
      const TensorView own = dense_view(view.type, view.extents(), place);
      place += rounded(bytes_for(view.type, view.count()));
      return own;
    };
    const auto copied = [&](const TensorView& view) {
      const TensorView own = dense(view);
      copier_.copy(*args.stream, view, own);
      return own;
    };
    if (!row_stride(a)) a = copied(a);
    const bool scattered = !row_stride(y);
    if (scattered) y = dense(y);
    PackedOperands operands{.a = a, .y = y, .m = m};
    bool overlaps = overlaps_;
    for (const bool of_twin : {false, true}) {
      if (of_twin && whole_.twin() == nullptr) continue;
      PackedWeights& weights = operands.weights.emplace_back();
      for (size_t i = 0; i < kWeights.size(); ++i) {
        const TensorView* view = weights_of(args, kWeights[i], of_twin);
        if (view == nullptr) continue;
        const bool plain = is_plain(kWeights[i], *view);
        overlaps = overlaps && plain;
        weights.data[i] = plain ? view->data : copied(*view).data;
      }
      weights.bias = weights_of(args, kBias, of_twin);
    }
    for (const int operand : whole_.sides()) {
      const TensorView side = broadcast(*args.in[static_cast<size_t>(operand)], *args.out[0]);
      operands.sides.push_back(row_stride(side) ? side : copied(side));
    }
    const Overlap overlap = overlaps ? Overlap::product : Overlap::none;
    const bool done = m > kFewRows ? unpacked_->run(args, operands, prologue_, place)
                      : m == 1     ? false
                      : quantised_ ? run_quantised(args, operands, place, overlap)
                                   : run_fragments(args, operands, place);
    if (!done) run_few(args, operands, overlap);
    if (scattered) copier_.copy(*args.stream, y, *args.out[0]);
  }

 private:
  // Rows up to which the weights are read as they are; products of more read them unpacked.
  static constexpr int64_t kFewRows = 64;

  void run_few(const LaunchArgs& args, const PackedOperands& operands, Overlap overlap) const {
    Arguments arguments = arguments_of(shape_, operands);
    prologue_.append_to(arguments, args);
    const bool one = operands.m == 1;
    const FewRows& shape = one ? one_shape_ : many_shape_;
    const TensorView& a = operands.a;
    const bool whole = !one_shape_.whole || (lies_whole(a.data, a.strides[a.rank - 1], shape_.k) &&
                                             prologue_.lies_whole(args));
    enqueue((!one    ? many_rows_
             : whole ? one_row_
                     : scattered_row_)
                ->get(),
            args, arguments, shape.grid(operands.m, shape_.n), static_cast<uint32_t>(shape.threads),
            overlap);
  }
  static bool is_aligned(const void* data) {
    constexpr uintptr_t kLoad = 16;
    return reinterpret_cast<uintptr_t>(data) % kLoad == 0;
  }
  static bool are_aligned(const PackedOperands& operands) {
    return std::ranges::all_of(operands.weights,
                               [](const PackedWeights& own) { return is_aligned(own.data[0]); });
  }
  // Several rows at once, which are normalised before it; false: codes lie where it cannot load
  // them.
  bool run_quantised(const LaunchArgs& args, PackedOperands operands, std::byte* workspace,
                     Overlap overlap) const {
    if (!are_aligned(operands)) return false;
    if (whole_.norm() != nullptr) {
      const TensorView rows = operands.a;
      operands.a = dense_view(rows.type, rows.extents(), workspace);
      prologue_.normalise(args, rows, operands.a);
    }
    workspace += rounded(bytes_for(operands.a.type, operands.m * shape_.k));
    quantised_->run(args, operands, workspace, overlap);
    return true;
  }
  bool run_fragments(const LaunchArgs& args, PackedOperands operands, std::byte* workspace) const {
    constexpr int64_t kFragment = 16;
    constexpr int64_t kPiece = 8;  // elements that are loaded at once
    if (!fragments_ || shape_.k % kPiece != 0) return false;
    const bool normalises = whole_.norm() != nullptr;
    const TensorView& a = operands.a;
    const bool lies_aligned =
        is_aligned(a.data) && a.strides[a.rank - 1] == 1 && *row_stride(a) % kPiece == 0;
    if (!normalises && !lies_aligned) return false;
    if (!are_aligned(operands)) return false;
    if (normalises) {
      const TensorView rows = operands.a;
      operands.a = dense_view(rows.type, rows.extents(), workspace);
      prologue_.normalise(args, rows, operands.a);
    }
    const auto blocks = [](int64_t count) {
      return static_cast<uint32_t>((count + kFragment - 1) / kFragment);
    };
    enqueue(fragments_->get(), args, arguments_of(shape_, operands),
            {blocks(shape_.n), blocks(operands.m), 1}, fragment_threads_);
    return true;
  }
  // An operand of the product or of its twin; null: absent.
  const TensorView* weights_of(const LaunchArgs& args, size_t operand, bool of_twin) const {
    const int at = of_twin ? whole_.twin_operand(operand) : whole_.operand(operand);
    return at < 0 ? nullptr : args.in[static_cast<size_t>(at)];
  }
  bool is_plain(size_t operand, const TensorView& view) const {
    if (!view.is_dense()) return false;
    constexpr int64_t kUnpacked = 8;  // bytes that are loaded at once at most
    const auto alignment =
        static_cast<size_t>(std::max({one_shape_.load, many_shape_.load, kUnpacked}));
    return operand != kCodes || reinterpret_cast<uintptr_t>(view.data) % alignment == 0;
  }
  static int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  Anchor whole_;
  RowsPrologue prologue_;
  ElementCopier copier_;
  PackedShape shape_;
  FewRows one_shape_;
  FewRows many_shape_;
  std::optional<LazyCode> one_row_;        // as one_shape_ has it
  std::optional<LazyCode> scattered_row_;  // of any strides
  std::optional<LazyCode> many_rows_;
  std::optional<QuantisedProduct> quantised_;  // of several rows; none: by fragments
  std::optional<LazyCode> fragments_;          // none: they are taken as few
  uint32_t fragment_threads_ = 0;
  std::optional<UnpackedProduct> unpacked_;
  bool overlaps_ = false;  // no launch writes its weights
};

KernelChoice choose_n_bits(const GpuDevice& device, const Instruction& instruction,
                           Constants constants) {
  return {make_n_bits(device, instruction, constants), ""};
}

}  // namespace

std::string why_no_n_bits(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const InstructionReader reader(instruction);
  if (reader.has(kGroups)) return "its weights are permuted by g_idx";
  if (instruction.result()->type().element == ElementType::f64) return "f64";
  for (const size_t operand : {size_t{kScales}, size_t{kZeros}, size_t{kBias}}) {
    if (element_of(instruction, operand) == ElementType::f64) return "an operand is f64";
  }
  const int64_t block = reader.integer("block_size");
  if (reader.text("compute_type") == "int8" && block > kMostBlock) {
    return fmt::format("int8 with blocks of {} weights: at most {}", block, kMostBlock);
  }
  return "";
}

std::unique_ptr<const Kernel> make_n_bits(const GpuDevice& device, const Instruction& instruction,
                                          Constants constants) {
  return std::make_unique<NBitsKernel>(device, instruction, constants);
}

extern const KernelEntry kNBits;
const KernelEntry kNBits{ops::matmul_n_bits, why_no_n_bits, choose_n_bits};

}  // namespace lathe::gpu
