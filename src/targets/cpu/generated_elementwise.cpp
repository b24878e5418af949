// SPDX-License-Identifier: MIT
#include "targets/cpu/generated_elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/os_thread.h"
#include "base/thread_pool.h"
#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/interpret/access.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/strided_tiles.h"

namespace lathe::cpu {
namespace {

using codegen::KernelCall;
using codegen::NodeId;
using interpret::Access;
using interpret::Layout;

// An iteration space as lines of elements along the last axis.
struct Lines {
  int64_t rows = 1;     // of the second last axis
  int64_t columns = 1;  // of the last axis
  int64_t count = 1;    // of lines, in all
  explicit Lines(const Layout& layout) {
    const auto rank = static_cast<size_t>(layout.rank);
    if (rank > 0) columns = layout.dims[rank - 1];
    if (rank > 1) rows = layout.dims[rank - 2];
    for (size_t axis = 0; axis + 1 < rank; ++axis) count *= layout.dims[axis];
  }
};

std::byte* line_of(const Layout& layout, const Access& access, int64_t line) {
  int64_t offset = 0;
  for (int axis = layout.rank - 2; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    offset += line % layout.dims[a] * access.strides[a];
    line /= layout.dims[a];
  }
  return access.data + offset * (info(access.type).bits / 8);
}

// Runs `rows` lines from `line` on, `columns` elements of each from `column` on.
void run_rows(const codegen::GeneratedKernel& kernel, const Layout& layout,
              std::span<const Access> all, int64_t line, int64_t rows, int64_t column,
              int64_t columns) {
  KernelCall call{.rows = rows, .columns = columns};
  const auto rank = static_cast<size_t>(layout.rank);
  for (size_t i = 0; i < all.size(); ++i) {
    const Access& access = all[i];
    const int64_t bytes = info(access.type).bits / 8;
    const int64_t along = rank > 0 ? access.strides[rank - 1] : 0;
    call.operands[i] = {line_of(layout, access, line) + column * along * bytes,
                        rank > 1 ? access.strides[rank - 2] * bytes : 0};
  }
  kernel.run(call);
}

constexpr int64_t kWork = 1 << 19;  // operations of a task, at least

// Blocks of long lines.
void run_lines(const codegen::GeneratedKernel& kernel, const Layout& layout,
               std::span<const Access> all, int64_t elements, ThreadPool* pool) {
  constexpr int64_t kBlock = 8192;
  const Lines lines(layout);
  const int64_t blocks = (lines.columns + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(elements / std::min(lines.columns, kBlock), 1);
  parallel_for(pool, lines.count * blocks, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t line = begin / blocks, block = begin % blocks;
      if (blocks == 1) {
        const int64_t rows = std::min(end - begin, lines.rows - line % lines.rows);
        run_rows(kernel, layout, all, line, rows, 0, lines.columns);
        begin += rows;
      } else {
        const int64_t taken = std::min(end - begin, blocks - block);
        const int64_t first = block * kBlock;
        const int64_t last = std::min(lines.columns, first + taken * kBlock);
        run_rows(kernel, layout, all, line, 1, first, last - first);
        begin += taken;
      }
    }
  });
}

// The linear form of instructions.
class FormBuilder {
 public:
  FormBuilder(std::span<const Value* const> operands, codegen::KernelDescription& kernel,
              std::vector<size_t>& used)
      : operands_(operands), kernel_(kernel), form_(kernel.form), used_(used) {}

  // False if its meaning is no formula.
  bool add(const Instruction& instruction, bool is_last) {
    const Value& result = *instruction.result();
    if (instruction.op() == ops::quantize_linear) {
      values_[&result] = {quantise(instruction, is_last), ExprType::i32};
      return true;
    }
    if (instruction.op() == ops::dequantize_linear) {
      values_[&result] = {dequantise(instruction), ExprType::f32};
      return true;
    }
    if (instruction.op().formula == nullptr) return false;
    std::vector<NodeId> arguments;
    for (const Value* operand : instruction.operands()) {
      const ExprType type = compute_type(operand->type().element);
      const Typed value = value_of(operand, type);
      if (value.type != type) return false;
      arguments.push_back(value.node);
    }
    const Expr formula = formula_of(instruction);
    values_[&result] = {form_.append(formula, arguments), formula.type()};
    return true;
  }

  void store(const Value& result) {
    const Typed& value = values_.at(&result);
    const auto operand = static_cast<int>(kernel_.operands.size());
    kernel_.phases.push_back({{{value.node, operand, value.type}}});
    kernel_.operands.push_back({result.type().element});
  }

 private:
  struct Typed {
    NodeId node = codegen::kNone;
    ExprType type = ExprType::f32;
  };

  // Loaded as `type` if it is an operand.
  Typed value_of(const Value* value, ExprType type) {
    const auto known = values_.find(value);
    if (known != values_.end()) return known->second;
    const auto at = static_cast<size_t>(std::ranges::find(operands_, value) - operands_.begin());
    auto place = static_cast<size_t>(std::ranges::find(used_, at) - used_.begin());
    if (place == used_.size()) {
      used_.push_back(at);
      kernel_.operands.push_back({value->type().element});
    }
    return {form_.load(static_cast<int>(place), type), type};
  }
  NodeId operation(ExprOp op, ExprType type, ExprType input_type,
                   std::initializer_list<NodeId> inputs) {
    return form_.operation(op, type, input_type, inputs);
  }
  NodeId of_floats(ExprOp op, std::initializer_list<NodeId> inputs) {
    return operation(op, ExprType::f32, ExprType::f32, inputs);
  }
  NodeId number(float value) {
    return form_.constant(ExprType::f32, std::bit_cast<uint32_t>(value));
  }
  NodeId float_of(const Value* bytes) {
    return operation(ExprOp::convert, ExprType::f32, ExprType::i32,
                     {value_of(bytes, ExprType::i32).node});
  }
  // Kernels of quantised steps compute with the zero point as a float.
  NodeId zero_point(const Instruction& instruction) {
    return has_operand(instruction, 2) ? float_of(instruction.operands()[2]) : number(0);
  }

  NodeId quantise(const Instruction& instruction, bool is_last) {
    const NodeId x = value_of(instruction.operands()[0], ExprType::f32).node;
    const NodeId scale = value_of(instruction.operands()[1], ExprType::f32).node;
    const bool is_signed = instruction.result()->type().element == ElementType::i8;
    NodeId y = of_floats(ExprOp::round_even, {of_floats(ExprOp::div, {x, scale})});
    y = of_floats(ExprOp::add, {y, zero_point(instruction)});
    y = of_floats(ExprOp::max, {y, number(is_signed ? -128 : 0)});
    y = of_floats(ExprOp::min, {y, number(is_signed ? 127 : 255)});
    return is_last ? form_.convert_to_bytes(y)
                   : operation(ExprOp::convert, ExprType::i32, ExprType::f32, {y});
  }

  NodeId dequantise(const Instruction& instruction) {
    const NodeId x = float_of(instruction.operands()[0]);
    const NodeId scale = value_of(instruction.operands()[1], ExprType::f32).node;
    return of_floats(ExprOp::mul, {of_floats(ExprOp::sub, {x, zero_point(instruction)}), scale});
  }

  std::span<const Value* const> operands_;
  codegen::KernelDescription& kernel_;
  codegen::LinearForm& form_;
  std::vector<size_t>& used_;
  std::unordered_map<const Value*, Typed> values_;
};

// Held while code is generated. A child of fork() has its own, as a thread of the parent may hold
// the other for ever; that one leaks.
std::mutex& generation_mutex() {
  struct State {
    std::mutex mutex;
    uint64_t process = fork_generation();
  };
  static std::atomic<State*> current{new State};
  State* found = current.load(std::memory_order_acquire);
  while (found->process != fork_generation()) {
    auto own = std::make_unique<State>();
    if (current.compare_exchange_strong(found, own.get())) return own.release()->mutex;
  }
  return found->mutex;
}

}  // namespace

std::unique_ptr<const GeneratedElementwise> GeneratedElementwise::make(
    std::span<const Value* const> operands, std::span<const Instruction* const> instructions,
    Isa isa) {
  std::unique_ptr<GeneratedElementwise> out(new GeneratedElementwise);
  out->isa_ = isa >= Isa::avx512 ? codegen::Isa::avx512 : codegen::Isa::avx2;
  if (!codegen::host_supports(out->isa_)) return nullptr;
  FormBuilder builder(operands, out->kernel_, out->operands_);
  for (const Instruction* instruction : instructions) {
    if (!builder.add(*instruction, instruction == instructions.back())) return nullptr;
  }
  builder.store(*instructions.back()->result());
  out->work_ = static_cast<int64_t>(out->kernel_.form.nodes().size());
  return codegen::why_not_generated(out->kernel_, out->isa_).empty() ? std::move(out) : nullptr;
}

GeneratedElementwise::~GeneratedElementwise() { delete variants_.load(); }

const codegen::GeneratedKernel* GeneratedElementwise::variant(uint32_t one_per_row) const {
  const auto find = [&]() -> const Variant* {
    const Variant* at = variants_.load(std::memory_order_acquire);
    while (at != nullptr && at->one_per_row != one_per_row) at = at->next.get();
    return at;
  };
  if (const Variant* known = find()) return known->kernel.get();
  const std::scoped_lock lock(generation_mutex());
  if (const Variant* known = find()) return known->kernel.get();
  codegen::KernelDescription kernel = kernel_;
  for (size_t i = 0; i < operands_.size(); ++i) {
    kernel.operands[i].one_per_row = (one_per_row >> i & 1) != 0;
  }
  auto added = std::make_unique<Variant>();
  added->one_per_row = one_per_row;
  added->kernel = codegen::generate(kernel, isa_);
  added->next.reset(variants_.load());
  const Variant* published = added.release();
  variants_.store(published, std::memory_order_release);
  return published->kernel.get();
}

bool GeneratedElementwise::run(std::span<const TensorView* const> in, const TensorView& y,
                               ThreadPool* pool) const {
  interpret::AccessList<codegen::kMaxOperands> accesses;
  const size_t count = operands_.size();
  for (const size_t operand : operands_) {
    accesses.add(interpret::access_to(*in[operand], y, static_cast<int>(operand)));
  }
  accesses.add({.data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides});
  const std::span<Access> all = accesses.all();
  Layout layout{.rank = y.rank, .dims = y.dims};
  if (layout.count() == 0) return true;
  interpret::collapse(layout, all);
  uint32_t one_per_row = 0, strided = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t along =
        layout.rank > 0 ? all[i].strides[static_cast<size_t>(layout.rank - 1)] : 1;
    if (along == 1) continue;
    if (i == count) return false;
    (along == 0 ? one_per_row : strided) |= 1u << i;
  }
  const codegen::GeneratedKernel* kernel = variant(one_per_row);
  if (kernel == nullptr) return false;
  const int64_t elements = std::max<int64_t>(kWork / (work_ + 8), 2048);  // of a task
  if (strided != 0) {
    StridedTiles(layout, all, strided)
        .run([&](KernelCall& call) { kernel->run(call); }, elements, pool);
  } else {
    run_lines(*kernel, layout, all, elements, pool);
  }
  return true;
}

}  // namespace lathe::cpu
