// SPDX-License-Identifier: MIT
// Vector code of one instruction set: the instructions of every node, load and store. A step is
// lanes() elements; a value is a vector register or, if boolean on a machine with masks, a mask
// register. Values that are equal in all lanes may lie in a cell, 4 bytes of memory: booleans as 0
// or -1.
#pragma once

#include <asmjit/x86.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel.h"

namespace lathe::codegen::x86 {

namespace aj = asmjit;
using Mem = aj::x86::Mem;

// Constants behind the code.
class ConstantPool {
 public:
  explicit ConstantPool(aj::x86::Assembler& to)
      : to_(to), label_(to.newLabel()), vectors_label_(to.newLabel()) {}
  Mem cell(uint32_t bits);
  Mem vector(uint32_t bits);  // 32 bytes of it
  // The first `count` of 8 lanes are -1, the others 0: at 32 - 4 `count` bytes.
  aj::Label lane_masks();
  void embed();

 private:
  aj::x86::Assembler& to_;
  struct Table {
    std::map<uint32_t, int32_t> offsets;
    std::vector<uint32_t> values;
  };
  static int32_t add(Table& table, uint32_t bits, int copies);

  aj::Label label_, vectors_label_;
  aj::Label lane_masks_;
  Table cells_, vectors_;
};

// Predicates of vcmpps and vpcmpd, and modes of vroundps.
inline constexpr int kUnordered = 3, kOrdered = 7;
int float_predicate(ExprOp comparison);
int integer_predicate(ExprOp comparison);
ExprOp reversed(ExprOp comparison);  // with its operands exchanged
int rounding_mode(ExprOp op);
bool is_comparison(ExprOp op);
// True for a constant float that is not NaN.
bool is_number(const Node& node);

inline constexpr uint32_t kSign = 0x80000000, kMaxInt = 0x7fffffff;
inline constexpr uint32_t kOne = 0x3f800000, kQuietNan = 0x7fc00000;  // as f32
inline constexpr uint32_t kBeyondInt = 0x4f000000;                    // 2^31 as f32

// An input of an operation.
struct Source {
  const Node* node = nullptr;
  int reg = -1;  // -1: a cell
  Mem cell;
};

// `fma` of a negated factor as `fma` of the factor with `bits` 1: c - a b.
std::vector<Node> with_negated_products(std::vector<Node> nodes);
inline bool negates_product(const Node& node) { return node.op == ExprOp::fma && node.bits != 0; }
// Products of x and 2^k in two steps, of which only the second one rounds, as `shift_left` of the
// float x by the i32 k: scale() of ops/math.
std::vector<Node> with_scalings(std::vector<Node> nodes);
// What a reduction by the operation begins with, as f32.
uint32_t neutral_bits(ExprOp op);
// A float that is no constant, in a register.
Source value_in(int reg);

class Machine {
 public:
  Machine(aj::x86::Assembler& to, ConstantPool& pool) : a(to), pool_(pool) {}
  virtual ~Machine() = default;

  virtual int lanes() const = 0;
  virtual int vectors() const = 0;  // registers 0 … for values
  virtual int masks() const = 0;    // 0: booleans are vectors of 0 and -1

  // Sets the lanes of a tail: the first `count`, less than lanes(). Overwrites rax and r11, which
  // the tail may not.
  virtual void set_tail(const aj::x86::Gp& count) = 0;
  virtual void load(ElementType type, int to, Mem from, bool tail) = 0;
  // The low or high half of elements of 64 bits; both.
  virtual void load_half(bool high, int to, Mem from, bool tail) = 0;
  virtual void store_halves(int low, int high, Mem to, bool tail) = 0;
  virtual void store(ElementType type, int from, Mem to, bool tail) = 0;
  virtual void load_cell(ExprType type, int to, Mem from) = 0;
  virtual void store_cell(ExprType type, int from, Mem to) = 0;
  virtual void spill(ExprType type, int from, Mem to) = 0;
  virtual void reload(ExprType type, int to, Mem from) = 0;

  // Lanes of a float beyond the tail become those of `other`, a constant.
  virtual void fill_beyond_tail(int value, uint32_t other) = 0;
  // The cell `to` = kPartialResults floats at `from`, 64-byte aligned, in one tree of an operation.
  // Overwrites registers 0 to 3.
  virtual void reduce(const Node& operation, Mem from, Mem to) = 0;

  // Inputs, as bits, that may be a cell (one of them), and those whose register may be the
  // result's.
  virtual unsigned cell_inputs(const Node& node) const = 0;
  virtual unsigned shared_inputs(const Node& node) const = 0;
  virtual void operate(const Node& node, int to, std::span<const Source> in) = 0;
  // The nodes with what the machine has an instruction for; others may be left without a reader.
  virtual std::vector<Node> rewrite(std::vector<Node> nodes) const = 0;

 protected:
  aj::x86::Assembler& a;
  ConstantPool& pool_;
};

// Empty, or the reason why a machine has no code for the node or for the conversion.
std::string why_not_operation(const Node& node, Isa isa);
std::string why_not_element(ElementType storage, ExprType type, Isa isa);

std::unique_ptr<Machine> make_avx2(aj::x86::Assembler& to, ConstantPool& pool);
std::unique_ptr<Machine> make_avx512(aj::x86::Assembler& to, ConstantPool& pool);

}  // namespace lathe::codegen::x86
