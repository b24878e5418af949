// SPDX-License-Identifier: MIT
// Compiles expressions to register programs: value numbering, then registers by last use.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "ops/interpret/program.h"

namespace lathe {
namespace {

using Program = CompiledExpr::Program;

int32_t bytes_of(ExprType type) {
  switch (type) {
    case ExprType::boolean:
      return 1;
    case ExprType::f32:
    case ExprType::i32:
      return 4;
    default:
      return 8;
  }
}

bool has_avx2() {
#if defined(__x86_64__)
  static const bool kSupported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kSupported;
#else
  return false;
#endif
}

// A distinct value of the expression.
struct Value {
  ExprOp op;
  ExprType type;
  ExprType input_type;
  uint64_t bits;
  std::vector<int> inputs;
  int last_use = -1;
};

class Compiler {
 public:
  explicit Compiler(CompiledExpr::Kernels kernels)
      : avx2_(kernels == CompiledExpr::Kernels::best && has_avx2()) {}

  void compile(const Expr& root, Program& program) {
    const int result = number(root);
    program.type = root.type();
    for (size_t i = 0; i < values_.size(); ++i) {
      for (const int input : values_[i].inputs) at(input).last_use = static_cast<int>(i);
    }
    at(result).last_use = static_cast<int>(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) emit(static_cast<int>(i), program);
    if (at(result).op == ExprOp::constant) emit_fill(result, program);
  }

 private:
  Value& at(int value) { return values_[static_cast<size_t>(value)]; }

  // Numbers all nodes, inputs first; equal nodes share a number. Iterative: chains may be long.
  int number(const Expr& root) {
    std::unordered_map<const void*, int> numbers;
    std::vector<std::pair<const Expr*, size_t>> stack{{&root, 0}};
    while (!stack.empty()) {
      auto& [expr, next] = stack.back();
      if (next < expr->inputs().size()) {
        const Expr& input = expr->inputs()[next++];
        if (!numbers.contains(input.id())) stack.emplace_back(&input, 0);
        continue;
      }
      numbers.emplace(expr->id(), number_node(*expr, numbers));
      stack.pop_back();
    }
    return numbers.at(root.id());
  }

  int number_node(const Expr& expr, const std::unordered_map<const void*, int>& numbers) {
    std::vector<int> inputs;
    for (const Expr& input : expr.inputs()) inputs.push_back(numbers.at(input.id()));
    if (expr.op() == ExprOp::bitcast) return inputs[0];  // same bytes
    uint64_t bits = 0;
    if (expr.op() == ExprOp::constant) bits = expr.constant_bits();
    if (expr.op() == ExprOp::argument) bits = static_cast<uint64_t>(expr.argument_index());
    const ExprType input_type = inputs.empty() ? expr.type() : expr.inputs().back().type();
    const auto [known, added] = known_.emplace(
        std::tuple(expr.op(), expr.type(), input_type, bits, inputs), values_.size());
    if (added) values_.push_back({expr.op(), expr.type(), input_type, bits, std::move(inputs)});
    return static_cast<int>(known->second);
  }

  void emit(int index, Program& program) {
    const Value& value = at(index);
    if (value.op == ExprOp::constant) return;
    Program::Step step;
    if (value.op == ExprOp::argument) {
      step.argument = declare_argument(value, program);
    } else {
      unsigned constants = 0;
      for (size_t i = 0; i < value.inputs.size(); ++i) {
        const bool constant = at(value.inputs[i]).op == ExprOp::constant;
        constants |= (constant ? 1u : 0u) << i;
        step.inputs[i] =
            constant ? constant_input(value.inputs[i], program) : location_.at(value.inputs[i]);
      }
      step.kernel = find({value.op, value.input_type, value.type, constants});
    }
    // Takes the output's register before it releases those of the inputs: loops never work in
    // place.
    step.out = take_register(bytes_of(value.type), program);
    location_[index] = step.out;
    program.steps.push_back(step);
    for (const int input : value.inputs) {
      if (at(input).last_use != index || at(input).op == ExprOp::constant) continue;
      release_register(location_.at(input), program);
    }
  }

  void emit_fill(int index, Program& program) {
    const ExprType type = at(index).type;
    Program::Step step;
    step.inputs[0] = constant_input(index, program);
    step.kernel = find({ExprOp::constant, type, type, 1});
    step.out = take_register(bytes_of(type), program);
    program.steps.push_back(step);
  }

  interpret::Kernel find(const interpret::KernelKey& key) {
    const interpret::Kernel kernel =
        avx2_ ? interpret::find_avx2_kernel(key) : interpret::find_portable_kernel(key);
    check(kernel != nullptr, ErrorKind::internal, "no kernel for {} of {}", to_string(key.op),
          to_string(key.in));
    return kernel;
  }

  static int32_t declare_argument(const Value& value, Program& program) {
    const auto index = static_cast<size_t>(value.bits);
    check(value.type != ExprType::i32, ErrorKind::internal,
          "argument {} is i32, which is not a compute type of any element type", index);
    if (program.argument_types.size() <= index) {
      program.argument_types.resize(index + 1, ExprType::f32);
      program.argument_used.resize(index + 1, false);
    }
    check(!program.argument_used[index] || program.argument_types[index] == value.type,
          ErrorKind::internal, "argument {} is used as {} and as {}", index,
          to_string(program.argument_types[index]), to_string(value.type));
    program.argument_types[index] = value.type;
    program.argument_used[index] = true;
    return static_cast<int32_t>(index);
  }

  Program::Input constant_input(int value, Program& program) {
    const auto [known, added] =
        constants_.emplace(value, ~static_cast<int32_t>(program.constants.size()));
    if (added) program.constants.push_back(at(value).bits);
    return known->second;
  }

  int32_t take_register(int32_t bytes, Program& program) {
    std::vector<int32_t>& pool = free_[bytes];
    if (!pool.empty()) {
      const int32_t taken = pool.back();
      pool.pop_back();
      return taken;
    }
    program.registers.push_back({program.bytes_per_element, bytes});
    program.bytes_per_element += bytes;
    return static_cast<int32_t>(program.registers.size()) - 1;
  }

  // An input that occurs twice is released once.
  void release_register(int32_t released, Program& program) {
    auto& pool = free_[program.registers[static_cast<size_t>(released)].bytes];
    if (std::find(pool.begin(), pool.end(), released) == pool.end()) pool.push_back(released);
  }

  bool avx2_;
  std::vector<Value> values_;
  std::map<std::tuple<ExprOp, ExprType, ExprType, uint64_t, std::vector<int>>, size_t> known_;
  std::unordered_map<int, int32_t> location_;
  std::unordered_map<int, Program::Input> constants_;
  std::map<int32_t, std::vector<int32_t>> free_;
};

}  // namespace

CompiledExpr::CompiledExpr(const Expr& expr, Kernels kernels) {
  auto program = std::make_unique<Program>();
  Compiler(kernels).compile(expr, *program);
  program_ = std::move(program);
}

CompiledExpr::~CompiledExpr() = default;
CompiledExpr::CompiledExpr(CompiledExpr&&) noexcept = default;
CompiledExpr& CompiledExpr::operator=(CompiledExpr&&) noexcept = default;

ExprType CompiledExpr::type() const { return program_->type; }
int CompiledExpr::operands() const { return static_cast<int>(program_->argument_types.size()); }
int CompiledExpr::steps() const { return static_cast<int>(program_->steps.size()); }
int CompiledExpr::bytes_per_element() const { return program_->bytes_per_element; }

}  // namespace lathe
