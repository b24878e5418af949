// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/interpret/access.h"
#include "ops/interpret/program.h"

namespace lathe {
namespace {

using interpret::Access;
using interpret::Layout;
using Program = CompiledExpr::Program;

// Registers of a chunk must fit L1.
constexpr int64_t kScratchBytes = 48 * 1024;
constexpr size_t kStackRegisters = 64;
constexpr size_t kFewOperands = 16;

// Scratch memory of fixed size on the stack; larger sizes use the heap.
template <class T, size_t kCount>
class Scratch {
 public:
  explicit Scratch(size_t count) {
    if (count > kCount) heap_.resize(count);
  }
  T* data() { return heap_.empty() ? stack_.data() : heap_.data(); }

 private:
  alignas(64) std::array<T, kCount> stack_;
  std::vector<T> heap_;
};

// Elements per chunk: a multiple of kLanes, so that packed types start at a byte boundary.
int64_t chunk_size(const Program& program) {
  const int64_t fitting = kScratchBytes / std::max(program.bytes_per_element, 1);
  return std::max(std::min(fitting, interpret::kMaxChunk) & -interpret::kLanes, interpret::kLanes);
}

class Runner {
 public:
  Runner(const Program& program, const Layout& layout, const Access* operands, const Access& out)
      : program_(program), layout_(layout), operands_(operands), out_(out) {}

  // Computes elements begin … end - 1 of the layout.
  void run(int64_t begin, int64_t end) const {
    const int64_t chunk = chunk_size(program_);
    Scratch<std::byte, kScratchBytes> memory(
        static_cast<size_t>(chunk * program_.bytes_per_element));
    Scratch<const std::byte*, kStackRegisters> registers(program_.registers.size());
    for (int64_t first = begin; first < end; first += chunk) {
      run_chunk(first, std::min(chunk, end - first), chunk, memory.data(), registers.data());
    }
  }

 private:
  void run_chunk(int64_t first, int64_t count, int64_t chunk, std::byte* memory,
                 const std::byte** registers) const {
    const int64_t padded = (count + interpret::kLanes - 1) & -interpret::kLanes;
    std::byte* direct = interpret::direct_output(out_, program_.type, first, count);
    const Program::Step* last = &program_.steps.back();
    for (const Program::Step& step : program_.steps) {
      const auto out = static_cast<size_t>(step.out);
      std::byte* to = memory + program_.registers[out].offset * chunk;
      if (step.kernel == nullptr) {
        const auto argument = static_cast<size_t>(step.argument);
        registers[out] = interpret::load(layout_, operands_[argument],
                                         program_.argument_types[argument], first, count, to);
        continue;
      }
      if (&step == last && direct != nullptr) to = direct;
      step.kernel(to, input(step.inputs[0], registers), input(step.inputs[1], registers),
                  input(step.inputs[2], registers), padded);
      registers[out] = to;
    }
    const std::byte* result = registers[last->out];
    if (result != direct) {
      interpret::store(layout_, out_, program_.type, first, count, result);
    }
  }

  const std::byte* input(Program::Input input, const std::byte* const* registers) const {
    if (input == Program::kUnused) return nullptr;
    if (input >= 0) return registers[input];
    return reinterpret_cast<const std::byte*>(&program_.constants[static_cast<size_t>(~input)]);
  }

  const Program& program_;
  const Layout& layout_;
  const Access* operands_;
  const Access& out_;
};

void check_operand(const Program& program, size_t index, ElementType type) {
  check(!program.argument_used[index] || compute_type(type) == program.argument_types[index],
        ErrorKind::internal, "operand {} is {}, but the expression computes in {}", index,
        to_string(type), to_string(program.argument_types[index]));
}

void check_result(const Program& program, size_t operands, ElementType type) {
  check(operands >= program.argument_types.size(), ErrorKind::internal,
        "the expression has {} operands, got {}", program.argument_types.size(), operands);
  check(compute_type(type) == program.type, ErrorKind::internal,
        "the result is {}, but the expression computes in {}", to_string(type),
        to_string(program.type));
}

}  // namespace

void CompiledExpr::run(std::span<const ElementOperand> operands, void* out, ElementType out_type,
                       int64_t count) const {
  check_result(*program_, operands.size(), out_type);
  const size_t used = program_->argument_types.size();
  Scratch<Access, kFewOperands + 1> all(used + 1);
  Layout layout{.rank = 1, .dims = {count}};
  for (size_t i = 0; i < used; ++i) {
    check_operand(*program_, i, operands[i].type);
    // Access has non-const data; operands are only read.
    auto* data = static_cast<std::byte*>(const_cast<void*>(operands[i].data));
    all.data()[i] = {.data = data, .type = operands[i].type, .strides = {operands[i].stride}};
  }
  all.data()[used] = {.data = static_cast<std::byte*>(out), .type = out_type, .strides = {1}};
  interpret::collapse(layout, {all.data(), used + 1});
  Runner(*program_, layout, all.data(), all.data()[used]).run(0, count);
}

void evaluate_elementwise(const CompiledExpr& expr, std::span<const TensorView> inputs,
                          const TensorView& out, ThreadPool* pool) {
  const CompiledExpr::Program& program = *expr.program_;
  check_result(program, inputs.size(), out.type);
  const size_t used = program.argument_types.size();
  Scratch<Access, kFewOperands + 1> all(used + 1);
  for (size_t i = 0; i < used; ++i) {
    check_operand(program, i, inputs[i].type);
    all.data()[i] = interpret::access_to(inputs[i], out, static_cast<int>(i));
  }
  Access& result = all.data()[used];
  result = {.data = static_cast<std::byte*>(out.data), .type = out.type, .strides = out.strides};
  Layout layout{.rank = out.rank, .dims = out.dims};
  const int64_t count = layout.count();
  if (count == 0) return;
  interpret::collapse(layout, {all.data(), used + 1});
  const Runner runner(program, layout, all.data(), result);
  // Tens of microseconds of work per task; whole chunks, so that packed types split at byte
  // boundaries.
  const int64_t work = (int64_t{1} << 18) / (expr.steps() + 8);
  const int64_t grain = std::clamp<int64_t>(work, 1024, 32768) & -interpret::kMaxChunk;
  parallel_for(pool, count, grain, [&](int64_t begin, int64_t end) { runner.run(begin, end); });
}

}  // namespace lathe
