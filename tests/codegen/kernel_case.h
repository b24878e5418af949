// SPDX-License-Identifier: MIT
// Operands of a generated kernel in guarded memory, with random elements.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "codegen/kernel.h"
#include "ir/expr.h"
#include "tensor/convert.h"
#include "tests/codegen/guard_pages.h"

namespace lathe::codegen::test {

inline std::vector<Isa> host_isas() {
  std::vector<Isa> out;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (host_supports(isa)) out.push_back(isa);
  }
  return out;
}

// One operand: rows of elements in guarded memory.
struct Operand {
  KernelOperand form;
  int64_t row_elements = 0;  // from row to row
  std::unique_ptr<GuardPages> memory;

  size_t bytes() const { return static_cast<size_t>(info(form.type).bits / 8); }
  std::byte* at(int64_t row, int64_t column) const {
    const int64_t element = row * row_elements + (form.one_per_row ? 0 : column);
    return memory->data() + static_cast<size_t>(element) * bytes();
  }
};

class Case {
 public:
  Case(std::vector<KernelOperand> forms, int64_t rows, int64_t columns, std::mt19937& random)
      : rows_(rows), columns_(columns) {
    for (const KernelOperand& form : forms) {
      const int64_t own = form.one_per_row ? 1 : columns;
      const int64_t gap = random() % 3 == 0 ? static_cast<int64_t>(random() % 5) : 0;
      Operand operand{form, own + gap, nullptr};
      const int64_t count = (rows - 1) * operand.row_elements + own;
      operand.memory = std::make_unique<GuardPages>(static_cast<size_t>(count) * operand.bytes(),
                                                    random() % 2 == 0);
      for (int64_t i = 0; i < count; ++i) fill(operand, i, random);
      operands.push_back(std::move(operand));
    }
  }

  KernelCall call() const {
    KernelCall out{.rows = rows_, .columns = columns_};
    for (size_t i = 0; i < operands.size(); ++i) {
      out.operands[i] = {operands[i].memory->data(),
                         operands[i].row_elements * static_cast<int64_t>(operands[i].bytes())};
    }
    return out;
  }

  std::vector<Operand> operands;

 private:
  static void fill(const Operand& operand, int64_t i, std::mt19937& random) {
    const ElementType type = operand.form.type;
    std::byte* at = operand.memory->data() + static_cast<size_t>(i) * operand.bytes();
    if (!is_floating(type) || random() % 8 == 0) {  // any bits
      const uint64_t bits = half(random) | uint64_t{half(random)} << 32;
      std::memcpy(at, &bits, operand.bytes());
      return;
    }
    const double value = std::ldexp(static_cast<double>(random() % 2001) - 1000,
                                    static_cast<int>(random() % 12) - 9);
    store_double(type, at, 0, value);
  }

  // Often a bound, so that halves of two elements are equal and sums carry.
  static uint32_t half(std::mt19937& random) {
    constexpr std::array kBounds{0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU};
    return random() % 2 == 0 ? kBounds[random() % kBounds.size()] : static_cast<uint32_t>(random());
  }

  int64_t rows_, columns_;
};

// Equal bits, where every NaN equals every other.
inline bool same(ElementType type, const std::byte* a, const std::byte* b) {
  if (is_floating(type)) {
    const double x = load_double(type, a, 0), y = load_double(type, b, 0);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  }
  return std::memcmp(a, b, static_cast<size_t>(info(type).bits / 8)) == 0;
}

// Type in which kernels compute elements of narrow integers too.
inline ExprType register_type(ElementType type) {
  return is_integer(type) ? ExprType::i32 : compute_type(type);
}

}  // namespace lathe::codegen::test
