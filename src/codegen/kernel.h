// SPDX-License-Identifier: MIT
// Kernels over two axes: their description, and machine code made of it. A kernel walks `rows` rows
// of `columns` elements; its operands, results among them, have any stride from row to row and are
// contiguous or one element along a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os_code_memory.h"
#include "codegen/linear_form.h"
#include "tensor/element_type.h"

namespace lathe::codegen {

enum class Isa : uint8_t { avx2, avx512 };  // avx512: F, BW, DQ, VL
std::string_view to_string(Isa isa);
bool host_supports(Isa isa);

inline constexpr size_t kMaxOperands = 24;

struct KernelOperand {
  ElementType type = ElementType::f32;
  bool one_per_row = false;  // else contiguous
};

struct Store {
  NodeId value = kNone;
  int operand = 0;
  ExprType type = ExprType::f32;  // as which the value is stored
  NodeId high = kNone;  // of elements of 64 bits, the high half; kNone: as the value's sign
};

// A row's values, f32, as one row scalar. Element i goes to partial result i % 32; these meet in
// one tree, so that every machine has the same bits.
struct Reduction {
  ExprOp op = ExprOp::add;  // add, from 0, or max, from -infinity
  NodeId value = kNone;
  int scalar = 0;  // index of the scalar: nodes of later phases read it
};

// One pass over the columns of a row. It loads what an earlier one stored.
struct Phase {
  std::vector<Store> stores{};  // to contiguous operands
  std::vector<Reduction> reductions{};
};

inline constexpr int kMaxScalars = 8;  // of a row
inline constexpr int kPartialResults = 32;

struct KernelDescription {
  std::vector<KernelOperand> operands;
  LinearForm form{};
  std::vector<Phase> phases{};  // one after the other, each for all rows
};

// A call; the kernel overwrites its pointers.
struct KernelCall {
  struct Pointer {
    std::byte* data = nullptr;
    int64_t row_stride = 0;  // bytes
  };
  int64_t rows = 0;
  int64_t columns = 0;
  std::array<Pointer, kMaxOperands> operands{};
  float* scalars = nullptr;  // kMaxScalars for each row, if the kernel reduces
};

// Immutable and thread-safe.
class GeneratedKernel {
 public:
  GeneratedKernel(CodeMemory code, int unroll) : code_(std::move(code)), unroll_(unroll) {}
  void run(KernelCall& call) const;
  size_t bytes() const { return code_.size(); }
  int unroll() const { return unroll_; }  // vectors per iteration of the last phase

 private:
  CodeMemory code_;
  int unroll_ = 1;
};

// Whether elementwise regions run as generated code here, in words: "avx512, in memory of memfd".
std::string generation_status();

// Element types that are loaded and stored.
std::vector<ElementType> operand_types(Isa isa);
// Empty, or the reason why no code is generated for it: an operation or an element type.
std::string why_not_generated(const KernelDescription& kernel, Isa isa);

// Null if the system refuses executable memory or the frame does not hold all spilled values.
// Requires why_not_generated() to be empty. `log` receives the assembly.
std::unique_ptr<const GeneratedKernel> generate(const KernelDescription& kernel, Isa isa,
                                                std::string* log = nullptr);

}  // namespace lathe::codegen
