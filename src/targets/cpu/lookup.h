// SPDX-License-Identifier: MIT
// Kernels that write a row of packed weights for each index.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ops/op_origin.h"
#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

class Lookup : public Kernel {
 public:
  bool reads(int operand) const final { return operand == indices_; }
  bool uses_workspace() const final { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const final;
  void launch(const LaunchArgs& args) const final;

 protected:
  // `indices`: the operand; `range`: what has `rows`, in messages.
  Lookup(const Instruction& instruction, int indices, int64_t rows, int64_t row_bytes,
         std::string range)
      : origin_(instruction),
        indices_(indices),
        rows_(rows),
        row_bytes_(row_bytes),
        range_(std::move(range)) {}
  virtual void read_row(int64_t row, std::byte* to) const = 0;

 private:
  OpOrigin origin_;
  int indices_;
  int64_t rows_;
  int64_t row_bytes_;
  std::string range_;
};

// A gather of rows of a table from the panels of a GEMM, which are then the only copy of the table;
// null if no GEMM packs the table.
std::unique_ptr<const Kernel> make_panel_lookup(const Instruction& gather, Isa isa);

}  // namespace lathe::cpu
