// SPDX-License-Identifier: MIT
// Pooling and attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops.h"
#include "ops/support/sdpa.h"
#include "ops/support/window.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

constexpr size_t kSpatial = 3;

class PoolKernel final : public GpuKernel {
 public:
  PoolKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)),
        attributes_(InstructionReader(instruction),
                    static_cast<size_t>(instruction.result()->type().rank()) - 2),
        kernel_(InstructionReader(instruction).integers("kernel_shape")) {
    const InstructionReader reader(instruction);
    const bool mean = instruction.op() == ops::average_pool;
    counts_padding_ = mean && reader.boolean("count_include_pad");
    const ElementType type = instruction.result()->type().element;
    const std::string start = type == ElementType::f64  ? "-double_of(0x7ff0000000000000ULL)"
                              : is_floating(type)       ? "-float_of(0x7f800000U)"
                              : type == ElementType::i8 ? "(ACC)-128"
                                                        : "(ACC)0";
    const std::string text =
        fmt::format("typedef {} T;\ntypedef {} ACC;\n#define MEAN {}\n#define START {}\n",
                    type_name(type), type_name(compute_type(type)), mean ? 1 : 0, start);
    const auto add = [&](std::string_view file) {
      codes_.push_back(std::make_unique<LazyCode>(
          device, Source{"pool", text + std::string(kernel_text(file))}, codes_.empty()));
    };
    add("pool.gpu");
    add("pool_channels.gpu");
  }
  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    const TensorView& y = *args.out[0];
    const int64_t count = y.count();
    if (count == 0) return;
    const auto spatial = static_cast<size_t>(y.rank - 2);
    std::array<WindowAxis, kSpatial> axes;
    window_axes(attributes_, x, y, kernel_, std::span(axes).first(spatial));
    Arguments arguments;
    arguments.add(x.data);
    arguments.add(y.data);
    for (const int64_t value : {count, y.dims[1], int64_t{counts_padding_}, x.strides[0],
                                x.strides[1], y.strides[0], y.strides[1]}) {
      arguments.add(value);
    }
    const size_t skipped = kSpatial - spatial;
    for (size_t i = 0; i < kSpatial; ++i) {
      const WindowAxis axis = i < skipped ? WindowAxis{} : axes[i - skipped];
      const size_t at = i < skipped ? 0 : 2 + i - skipped;
      for (const int64_t value : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation,
                                  axis.pad_begin, axis.pad_end}) {
        arguments.add(value);
      }
      arguments.add(at == 0 ? 0 : x.strides[at]);
      arguments.add(at == 0 ? 0 : y.strides[at]);
    }
    const bool wide = lies_in_pieces(x) && lies_in_pieces(y) && x.dims[1] % per(x) == 0;
    enqueue(codes_[wide ? 1 : 0]->get(), args, arguments,
            {blocks_for(wide ? count / per(x) : count, kThreads), 1, 1}, kThreads);
  }

 private:
  static int64_t per(const TensorView& view) { return 16 * 8 / info(view.type).bits; }
  // Whether 16 bytes of channels follow each other everywhere, in fewer than 2^31 elements.
  static bool lies_in_pieces(const TensorView& view) {
    bool aligned = reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.strides[1] == 1 &&
                   view.count() <= std::numeric_limits<int32_t>::max();
    for (int axis = 0; axis < view.rank; ++axis) {
      const bool steps = axis != 1 && view.dims[axis] > 1;
      aligned = aligned && (!steps || view.strides[axis] % per(view) == 0);
    }
    return aligned;
  }
  WindowAttributes attributes_;
  Integers kernel_;
  bool counts_padding_ = false;
  std::vector<std::unique_ptr<LazyCode>> codes_;  // of elements, of pieces of channels
};

std::string why_no_pool(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const int rank = instruction.result()->type().rank();
  if (rank < 3 || rank > 5) return fmt::format("{} spatial axes", rank - 2);
  if (instruction.op() == ops::max_pool && !instruction.results()[1].uses().empty()) {
    return "its indices are used";
  }
  return "";
}

KernelChoice make_pool(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<PoolKernel>(device, instruction), ""};
}

constexpr int64_t kMostColumns = 128;  // of a head
constexpr int64_t kQueries = 16;       // of a block
constexpr uint32_t kAttentionThreads = 128;

// The constant columns of a head of q or v; 0 if they are not known.
int64_t head_columns(const Instruction& instruction, size_t operand) {
  const InstructionReader reader(instruction);
  const Type& type = instruction.operands()[operand]->type();
  const std::optional<int64_t> columns = type.dims->back().constant();
  if (!columns) return 0;
  if (type.rank() == 4) return *columns;
  const int64_t heads = reader.integer(operand == 0 ? "q_num_heads" : "kv_num_heads");
  return heads > 0 ? *columns / heads : 0;
}

// Whether a mask [..., queries, keys] has the same row for all queries.
bool is_by_key(const Type& mask) {
  const int rank = mask.rank();
  return rank < 2 || (*mask.dims)[static_cast<size_t>(rank - 2)] == Dim(1);
}

class AttentionKernel final : public GpuKernel {
 public:
  AttentionKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, "attention"),
        attributes_(InstructionReader(instruction)),
        heads_(InstructionReader(instruction).integer("q_num_heads")),
        key_heads_(InstructionReader(instruction).integer("kv_num_heads")),
        masked_(InstructionReader(instruction).has(3)) {
    const ElementType mask = masked_ ? instruction.operands()[3]->type().element : ElementType::f32;
    const int kind = !masked_ ? 0 : mask == ElementType::boolean ? 1 : 2;
    const ElementType type = instruction.result()->type().element;
    const std::string text =
        fmt::format("typedef {} T;\ntypedef {} TM;\n#define D {}\n#define DV {}\n#define MASK {}\n",
                    type_name(type), type_name(mask), head_columns(instruction, 0),
                    head_columns(instruction, 2), kind);
    if (type != ElementType::f16 && type != ElementType::bf16) {
      code_ =
          device.code().get({"attention", fmt::format("{}{}", text, kernel_text("attention.gpu"))});
      return;
    }
    // Steps of heads of more columns have fewer keys, for shared memory.
    constexpr int64_t kNarrow = 64;
    const int64_t columns = std::max(head_columns(instruction, 0), head_columns(instruction, 2));
    const bool wide = columns > kNarrow;
    for (const int split : {kWaves, 1}) {
      const int keys = (split > 1 ? 32 : 64) / (wide ? 2 : 1);
      fragments_.push_back(device.code().get(
          {"attention",
           fmt::format(
               "{}#define MASK_BY_KEY {}\n#define SOFTCAP {}\n#define ROWS 1\n#define WAVES "
               "{}\n#define SPLIT {}\n#define KEYS {}\n#define STAGES {}\n#define THREADS "
               "{}\n{}{}",
               text, masked_ && is_by_key(instruction.operands()[3]->type()) ? 1 : 0,
               attributes_.softcap > 0 ? 1 : 0, kWaves, split, keys, split > 1 ? 1 : 2,
               kWaves * wave_width(), kernel_text("fragments.gpu"),
               kernel_text("attention_fragments.gpu"))}));
    }
  }
  void launch(const LaunchArgs& args) const override {
    const TensorView q = as_heads(*args.in[0], heads_);
    const TensorView k = as_heads(*args.in[1], key_heads_);
    const TensorView v = as_heads(*args.in[2], key_heads_);
    const TensorView y = as_heads(*args.out[0], heads_);
    if (y.count() == 0) return;
    Arguments arguments;
    for (const TensorView* view : {&q, &k, &v, &y}) {
      arguments.add(view->data);
      for (int axis = 0; axis < 4; ++axis) arguments.add(view->strides[axis]);
    }
    arguments.add(q.dims[1]);
    arguments.add(q.dims[1] / std::max<int64_t>(1, k.dims[1]));
    arguments.add(q.dims[2]);
    arguments.add(k.dims[2]);
    arguments.add(attributes_.scale != 0
                      ? attributes_.scale
                      : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q.dims[3]))));
    arguments.add(attributes_.softcap);
    arguments.add(int64_t{attributes_.causal});
    const TensorView mask = masked_ ? broadcast_to_rank4(*args.in[3]) : TensorView{};
    arguments.add(mask.data);
    for (int axis = 0; axis < 4; ++axis) {
      arguments.add(!masked_ || mask.dims[axis] == 1 ? 0 : mask.strides[axis]);
    }
    arguments.add(!masked_ || mask.dims[3] == 1 ? k.dims[2] : mask.dims[3]);
    if (!fragments_.empty()) {
      const auto blocks = [&](int64_t queries) { return (q.dims[2] + queries - 1) / queries; };
      // Where whole blocks would leave half of the multiprocessors idle, waves share queries.
      const bool share = blocks(kWaves * kWaveQueries) * q.dims[1] * q.dims[0] * 2 <=
                         device_.driver().limits().multiprocessors;
      return enqueue(*fragments_[share ? 0 : 1], args, arguments,
                     {static_cast<uint32_t>(blocks(share ? kWaveQueries : kWaves * kWaveQueries)),
                      static_cast<uint32_t>(q.dims[1]), static_cast<uint32_t>(q.dims[0])},
                     kWaves * wave_width());
    }
    enqueue(*code_, args, arguments,
            {static_cast<uint32_t>((q.dims[2] + kQueries - 1) / kQueries),
             static_cast<uint32_t>(q.dims[1]), static_cast<uint32_t>(q.dims[0])},
            kAttentionThreads);
  }

 private:
  static constexpr int kWaves = 4;
  static constexpr int64_t kWaveQueries = 16;
  uint32_t wave_width() const { return static_cast<uint32_t>(device_.driver().limits().wave); }
  static TensorView as_heads(const TensorView& view, int64_t heads) {
    return view.rank == 4 ? view : split_heads(view, heads);
  }
  AttentionAttributes attributes_;
  int64_t heads_;
  int64_t key_heads_;
  bool masked_;
  std::shared_ptr<const Code> code_;
  std::vector<std::shared_ptr<const Code>> fragments_;  // whose waves share queries, or not
};

std::string why_no_attention(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const InstructionReader reader(instruction);
  const AttentionAttributes attributes(reader);
  if (reader.has(4) || reader.has(5) || reader.has(6)) return "it has a cache";
  if (attributes.left >= 0 || attributes.right >= 0) return "it has a window";
  for (size_t i = 1; i < instruction.results().size(); ++i) {
    if (!instruction.results()[i].uses().empty()) return fmt::format("result {} is used", i);
  }
  const ElementType type = instruction.result()->type().element;
  if (type == ElementType::f64) return "f64";
  for (size_t i = 0; i < 3; ++i) {
    if (instruction.operands()[i]->type().element != type) return "operands have several types";
  }
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const int64_t columns = head_columns(instruction, i);
    if (columns < 1 || columns > kMostColumns) return fmt::format("heads of {} columns", columns);
  }
  return "";
}

KernelChoice make_attention(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<AttentionKernel>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kWindows[];
extern const size_t kWindowCount;
const KernelEntry kWindows[] = {
    {ops::average_pool, why_no_pool, make_pool},
    {ops::max_pool, why_no_pool, make_pool},
    {ops::attention, why_no_attention, make_attention},
};
const size_t kWindowCount = std::size(kWindows);

}  // namespace lathe::gpu
