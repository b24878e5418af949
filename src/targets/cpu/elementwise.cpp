// SPDX-License-Identifier: MIT
#include "targets/cpu/elementwise.h"

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/interpret/kernels.h"
#include "targets/cpu/elementwise_program.h"
#include "targets/cpu/generated_elementwise.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/quantize_ops.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/strided_tiles.h"

namespace lathe::cpu {
namespace {

using interpret::Access;

constexpr int64_t kMaxChunk = 2048;         // elements, if every operand is contiguous
constexpr int64_t kChunkBytes = 24 * 1024;  // of all registers

class Elementwise final : public Kernel {
 public:
  Elementwise(std::span<const Value* const> operands,
              std::span<const Instruction* const> instructions, Constants constants, Isa isa)
      : isa_(isa), program_(operands, instructions, isa) {
    name_ = "cpu.";
    for (const Instruction* instruction : instructions) {
      if (instruction != instructions.front()) name_ += '+';
      name_ += instruction->op().name;
    }
    make_table(constants);
    if (table_.empty()) generated_ = GeneratedElementwise::make(operands, instructions, isa);
  }

  std::string_view name() const override { return name_; }
  std::string detail() const override {
    const char* form = generated_ != nullptr ? ", generated" : "";
    return fmt::format("{}{}", to_string(isa_), table_.empty() ? form : ", a table of bytes");
  }
  // An element of the result depends on those of the same index.
  bool may_overwrite(int /*operand*/) const override { return true; }

  void launch(const LaunchArgs& args) const override {
    const TensorView& y = *args.out[0];
    if (generated_ != nullptr && generated_->run(args.in, y, args.pool)) return;
    const std::vector<ElementwiseProgram::Load>& loads = program_.loads();
    interpret::AccessList<ElementwiseProgram::kMaxLoads + 1> accesses;
    for (const ElementwiseProgram::Load& load : loads) {
      const TensorView& x = *args.in[static_cast<size_t>(load.operand)];
      accesses.add(interpret::access_to(x, y, load.operand));
    }
    accesses.add({.data = static_cast<std::byte*>(y.data), .type = y.type, .strides = y.strides});
    interpret::Layout layout{.rank = y.rank, .dims = y.dims};
    const int64_t count = layout.count();
    if (count == 0) return;
    const std::span<Access> used = accesses.all();
    interpret::collapse(layout, used);
    const bool contiguous = std::ranges::all_of(
        used, [](const Access& access) { return access.linear || access.scalar; });
    if (!table_.empty() && look_up(layout, {used[table_load_], used.back()}, args.pool)) return;
    const int64_t most = contiguous ? kMaxChunk : interpret::kMaxChunk;
    const int64_t chunk = std::max(
        std::min(most, kChunkBytes / program_.bytes()) & -interpret::kLanes, interpret::kLanes);
    constexpr int64_t kGrain = 16384;
    const ElementwiseProgram::Parameters parameters = program_.parameters_of(
        [&](int operand) -> const TensorView& { return *args.in[static_cast<size_t>(operand)]; });
    parallel_for(args.pool, count, kGrain, [&](int64_t begin, int64_t end) {
      const ScratchBlock memory(chunk * program_.bytes() + ElementwiseProgram::kPadding);
      for (int64_t first = begin; first < end; first += chunk) {
        program_.run(layout, used, parameters, first, std::min(chunk, end - first), chunk,
                     static_cast<std::byte*>(memory.data()));
      }
    });
  }

 private:
  // False if the result is strided.
  bool look_up(const interpret::Layout& layout, const std::array<Access, 2>& all,
               ThreadPool* pool) const {
    constexpr int64_t kTableGrain = 65536;
    const auto run = [&](const std::byte* x, std::byte* y, int64_t count) {
      quantize_ops(isa_).look_up(reinterpret_cast<const uint8_t*>(x), table_.data(),
                                 reinterpret_cast<uint8_t*>(y), count);
    };
    if (all[0].linear && all[1].linear) {
      parallel_for(pool, layout.count(), kTableGrain, [&](int64_t begin, int64_t end) {
        run(all[0].data + begin, all[1].data + begin, end - begin);
      });
      return true;
    }
    if (layout.rank == 0) return false;
    const auto last = static_cast<size_t>(layout.rank - 1);
    if (all[1].strides[last] != 1) return false;
    const uint32_t strided = all[0].strides[last] == 1 ? 0 : 1;
    StridedTiles(layout, all, strided)
        .run(
            [&](const codegen::KernelCall& call) {
              const auto &x = call.operands[0], &y = call.operands[1];
              for (int64_t row = 0; row < call.rows; ++row) {
                run(x.data + row * x.row_stride, y.data + row * y.row_stride, call.columns);
              }
            },
            kTableGrain, pool);
    return true;
  }

  // A function of one byte and constants, to quantised values.
  void make_table(Constants constants) {
    const std::vector<ElementwiseProgram::Load>& loads = program_.loads();
    const auto bytes = std::ranges::find_if(loads, &ElementwiseProgram::Load::bytes);
    if (bytes == loads.end() || !program_.result_is_bytes()) return;
    const auto constant = [&](int operand) {
      return constant_at(constants, static_cast<size_t>(operand));
    };
    for (const ElementwiseProgram::Load& load : loads) {
      const Tensor* value = load.bytes ? nullptr : constant(load.operand);
      if (&load != &*bytes && (value == nullptr || value->count() != 1)) return;
    }
    for (const int operand : program_.parameter_operands()) {
      if (constant(operand) == nullptr) return;
    }
    const ElementwiseProgram::Parameters parameters =
        program_.parameters_of([&](int operand) { return constant(operand)->view(); });
    constexpr int64_t kBytes = 256;
    std::array<uint8_t, kBytes> index;
    for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<uint8_t>(i);
    table_.resize(kBytes);
    interpret::Layout layout{.rank = 1};
    layout.dims[0] = kBytes;
    std::array<Access, ElementwiseProgram::kMaxLoads + 1> all;
    for (size_t i = 0; i < loads.size(); ++i) {
      const Tensor* value = loads[i].bytes ? nullptr : constant(loads[i].operand);
      all[i] = value == nullptr ? Access{.data = reinterpret_cast<std::byte*>(index.data()),
                                         .type = ElementType::u8,
                                         .strides = {1}}
                                : Access{.data = const_cast<std::byte*>(value->as<std::byte>()),
                                         .type = value->type()};
    }
    all[loads.size()] = {.data = reinterpret_cast<std::byte*>(table_.data()),
                         .type = program_.out_type(),
                         .strides = {1}};
    const auto used = std::span(all).first(loads.size() + 1);
    for (Access& access : used) interpret::classify(layout, access);
    table_load_ = static_cast<size_t>(bytes - loads.begin());
    const ScratchBlock memory(kBytes * program_.bytes() + ElementwiseProgram::kPadding);
    program_.run(layout, used, parameters, 0, kBytes, kBytes,
                 static_cast<std::byte*>(memory.data()));
  }

  std::string name_;
  Isa isa_;
  ElementwiseProgram program_;
  std::vector<uint8_t> table_;  // by the byte of a load; empty: none
  size_t table_load_ = 0;
  std::unique_ptr<const GeneratedElementwise> generated_;  // null: none
};

}  // namespace

std::unique_ptr<const Kernel> make_elementwise_region(const Instruction& region,
                                                      Constants constants, Isa isa) {
  const Module& body = *region.bodies()[0];
  std::vector<const Value*> operands;
  for (const auto& parameter : body.parameters()) operands.push_back(parameter.get());
  std::vector<const Instruction*> instructions;
  for (const auto& instruction : body.instructions()) instructions.push_back(instruction.get());
  return std::make_unique<Elementwise>(operands, instructions, constants, isa);
}

namespace {

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  return why_no_elementwise(instruction);
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  const std::vector<const Value*> operands(instruction.operands().begin(),
                                           instruction.operands().end());
  const std::array<const Instruction*, 1> alone{&instruction};
  return {std::make_unique<Elementwise>(operands, alone, constants, isa), ""};
}

}  // namespace

const KernelEntry kElementwise{ops::identity, why_not, make};

}  // namespace lathe::cpu
