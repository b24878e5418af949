// SPDX-License-Identifier: MIT
// attention, multi_head_attention, group_query_attention, packed_attention: the ops convert KV
// caches and masks to the form of the reference; the kernel computes it.
#include "targets/cpu/kernels/attention/attention.h"

#include <variant>

#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/support/gqa.h"
#include "ops/support/packed_attention.h"
#include "ops/support/sdpa.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

// Rows with contiguous elements; a copy if the view has none.
class Rows {
 public:
  explicit Rows(const TensorView& view) : view_(view) {
    if (view.strides[3] == 1 || view.dims[3] == 1) return;
    copy_ = ScratchTensor(view.type, view.extents());
    view_ = copy_.view();
    is_copy_ = true;
  }
  const TensorView& view() const { return view_; }
  bool is_copy() const { return is_copy_; }
  AttentionRows rows() const {
    return {view_.data, view_.strides[0], view_.strides[1], view_.strides[2]};
  }
  AttentionCache cache() const {
    AttentionCache out;
    out.data = view_.data;
    out.batch = view_.strides[0];
    out.head = view_.strides[1];
    out.row = view_.strides[2];
    return out;
  }

 private:
  TensorView view_;
  ScratchTensor copy_;
  bool is_copy_ = false;
};

// The rows rounded to bf16.
ScratchTensor rounded_rows(const TensorView& view, Isa isa, ThreadPool* pool) {
  ScratchTensor rounded(ElementType::bf16, view.extents());
  const int64_t heads = view.dims[1], rows = view.dims[2], size = view.dims[3];
  const int64_t bytes = info(view.type).bits / 8;
  parallel_for(
      pool, view.dims[0] * heads * rows, std::max<int64_t>(1, 16384 / size),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = i / rows / heads * view.strides[0] +
                             i / rows % heads * view.strides[1] + i % rows * view.strides[2];
          convert_elements(vector_ops(isa), ElementType::bf16, rounded.as<uint16_t>() + i * size,
                           view.type, view.as<std::byte>() + at * bytes, size);
        }
      });
  return rounded;
}

Rows read_rows(const TensorView& view) {
  Rows rows(view);
  if (rows.is_copy()) copy_elements(view, rows.view());
  return rows;
}

AttentionBias bias_of(const TensorView& view) {
  AttentionBias bias;
  bias.data = view.data;
  bias.type = view.type;
  bias.batch = view.strides[0];
  bias.head = view.strides[1];
  bias.row = view.strides[2];
  bias.key = view.strides[3];
  if (view.dims[3] != 1) bias.keys = view.dims[3];
  return bias;
}

AttentionProblem problem_of(const Attend& attend, bool use_bf16) {
  AttentionProblem p;
  p.use_bf16 = use_bf16;
  p.heads = attend.q.dims[1];
  p.key_heads = attend.k.dims[1];
  p.size = attend.q.dims[3];
  p.value_size = attend.v.dims[3];
  p.query = attend.q.type;
  p.cache = attend.k.type;
  p.result = attend.y.type;
  p.scale = attend.scale;
  p.softcap = attend.softcap;
  p.causal = attend.causal;
  p.left = attend.left;
  p.right = attend.right;
  return p;
}

void run(Attend attend, bool use_bf16, Isa isa, ThreadPool* pool) {
  // Checks the shapes of this run; why_not checked the types.
  if (!Attention::refuse(problem_of(attend, use_bf16), isa).empty()) {
    if (use_bf16) attend.round_to_bf16();
    attend.run(pool);
    return;
  }
  if (use_bf16) {
    const std::array<TensorView*, 3> views{&attend.q, &attend.k, &attend.v};
    for (size_t i = 0; i < views.size(); ++i) {
      if (views[i]->type == ElementType::bf16) continue;
      const Rows rows = read_rows(*views[i]);
      attend.memory[i] = rounded_rows(rows.view(), isa, pool);
      *views[i] = attend.memory[i].view();
    }
  }
  const AttentionProblem problem = problem_of(attend, use_bf16);
  const Rows q = read_rows(attend.q);
  const Rows k = read_rows(attend.k);
  const Rows v = read_rows(attend.v);
  const Rows y(attend.y);
  const ScratchArray<float> sinks(static_cast<int64_t>(attend.sinks.size()));
  std::ranges::copy(attend.sinks, sinks.begin());
  AttentionArguments arguments;
  arguments.batch = attend.q.dims[0];
  arguments.queries = attend.q.dims[2];
  arguments.q = q.rows();
  arguments.y = y.rows();
  arguments.k = k.cache();
  arguments.v = v.cache();
  if (attend.bias) arguments.bias = bias_of(*attend.bias);
  arguments.first = attend.first.data();
  arguments.length = attend.length.data();
  arguments.sinks = sinks.empty() ? nullptr : sinks.data();
  Attention(problem, isa).run(arguments, pool);
  if (y.is_copy()) copy_elements(y.view(), attend.y);
}

// Results that include the past keys and values.
constexpr int kPresentKey = 1, kPresentValue = 2, kScores = 3;
constexpr size_t kPastKey = 4;

bool is_used(const Instruction& instruction, int result) {
  return !instruction.result(result)->uses().empty();
}

// Head size; none if it is dynamic.
std::optional<int64_t> head_size(const Instruction& instruction, int present) {
  const Type& type = instruction.result(present)->type();
  if (!type.is_ranked() || type.rank() != 4) return std::nullopt;
  return type.dims->back().constant();
}

bool has_static_sizes(const Instruction& instruction) {
  return head_size(instruction, kPresentKey) && head_size(instruction, kPresentValue);
}

// The op's attributes decide how it prepares its attention.
using Attributes = std::variant<AttentionAttributes, MultiHeadAttributes, GroupQueryAttributes>;

Attributes attributes_of(const Instruction& instruction) {
  const InstructionReader c(instruction);
  const Op& op = instruction.op();
  if (op == ops::attention) return AttentionAttributes(c);
  if (op == ops::multi_head_attention) return MultiHeadAttributes(c);
  return GroupQueryAttributes(c);
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        attributes_(attributes_of(instruction)),
        isa_(isa),
        may_fall_back_(!has_static_sizes(instruction)),
        reads_in_place_(instruction.op() == ops::attention && !has_operand(instruction, kPastKey) &&
                        !is_used(instruction, kPresentKey) &&
                        !is_used(instruction, kPresentValue)) {}
  // Presents in place are the operands; the kernel refuses scores.
  bool writes(int result) const override {
    const auto* own = std::get_if<AttentionAttributes>(&attributes_);
    if (result == kScores) return own == nullptr || own->kept != AttentionScores::none;
    return result == 0 || !reads_in_place_;
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}", to_string(isa_),
                       may_fall_back_ ? fmt::format("; may fall back to ref if the head size "
                                                    "exceeds {}",
                                                    Attention::kMaxHeadSize)
                                      : "");
  }
  void launch(const LaunchArgs& args) const override {
    LaunchViews views(args);
    const OpCall c(origin_, views);
    const auto* own = std::get_if<AttentionAttributes>(&attributes_);
    run(prepare(c), own != nullptr && own->use_bf16, isa_, args.pool);
  }

 private:
  Attend prepare(const OpCall& c) const {
    if (const auto* a = std::get_if<AttentionAttributes>(&attributes_)) {
      return prepare_attention(*a, c, reads_in_place_);
    }
    if (const auto* a = std::get_if<MultiHeadAttributes>(&attributes_)) {
      return prepare_multi_head_attention(*a, c);
    }
    return prepare_group_query_attention(std::get<GroupQueryAttributes>(attributes_), c);
  }

  std::string name_;
  OpOrigin origin_;
  Attributes attributes_;
  Isa isa_;
  bool may_fall_back_;
  bool reads_in_place_;  // keys and values are operands 1 and 2, and no result has them
};

std::string why_not(const Instruction& instruction, Isa isa) {
  const Attribute* kept = find_attribute(instruction.attributes(), "qk_output");
  const bool has_scores = kept == nullptr || std::get<int64_t>(*kept) != 0;
  if (has_scores && !instruction.result(kScores)->uses().empty())
    return "the attention scores are used";
  const ElementType type = element_of(instruction, 0);
  if (type == ElementType::f64) return "operands are f64";
  const ElementType keys = instruction.result(kPresentKey)->type().element;
  const ElementType values = instruction.result(kPresentValue)->type().element;
  if (keys != values) {
    return fmt::format("keys are {} and values {}", info(keys).name, info(values).name);
  }
  AttentionProblem problem;
  problem.size = head_size(instruction, kPresentKey).value_or(1);
  problem.value_size = head_size(instruction, kPresentValue).value_or(1);
  problem.query = problem.result = type;
  problem.cache = keys;
  return Attention::refuse(problem, isa);
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<AttentionKernel>(instruction, isa), ""};
}

class PackedAttentionKernel final : public Kernel {
 public:
  PackedAttentionKernel(const Instruction& instruction, Isa isa)
      : origin_(instruction), attributes_(InstructionReader(instruction)), isa_(isa) {}
  std::string_view name() const override { return "cpu.packed_attention"; }
  std::string detail() const override { return std::string(to_string(isa_)); }
  void launch(const LaunchArgs& args) const override {
    LaunchViews views(args);
    const OpCall c(origin_, views);
    const std::vector<StepItem> items = packed_sequences(c);
    const auto attend = [&](size_t i, ThreadPool* pool) {
      run(prepare_packed_attention(attributes_, c, items[i]), attributes_.use_bf16, isa_, pool);
    };
    // With few sequences the threads share each of them.
    constexpr int64_t kSequencesPerThread = 4;
    const int64_t threads = args.pool == nullptr ? 1 : args.pool->threads();
    if (std::ssize(items) < kSequencesPerThread * threads) {
      for (size_t i = 0; i < items.size(); ++i) attend(i, args.pool);
      return;
    }
    parallel_for(args.pool, std::ssize(items), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) attend(static_cast<size_t>(i), nullptr);
    });
  }

 private:
  OpOrigin origin_;
  PackedAttentionAttributes attributes_;
  Isa isa_;
};

std::string why_not_packed(const Instruction& instruction, Isa isa) {
  const ElementType type = element_of(instruction, 0);
  if (type == ElementType::f64) return "operands are f64";
  const int64_t heads = InstructionReader(instruction).integer("num_heads");
  const auto size_of = [&](size_t operand) {
    const auto columns = instruction.operands()[operand]->type().dims->back().constant();
    return columns ? *columns / heads : 1;
  };
  AttentionProblem problem;
  problem.size = size_of(0);
  problem.value_size = size_of(2);
  problem.query = problem.cache = problem.result = type;
  return Attention::refuse(problem, isa);
}

KernelChoice make_packed(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<PackedAttentionKernel>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kAttention{ops::attention, why_not, make};
const KernelEntry kGroupQueryAttention{ops::group_query_attention, why_not, make};
const KernelEntry kMultiHeadAttention{ops::multi_head_attention, why_not, make};
const KernelEntry kPackedAttention{ops::packed_attention, why_not_packed, make_packed};

}  // namespace lathe::cpu
