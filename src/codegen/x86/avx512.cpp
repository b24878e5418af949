// SPDX-License-Identifier: MIT
// AVX-512 F, BW, DQ, VL. Values: zmm0 … zmm29, k1 … k5; scratch: zmm30, zmm31, k6; tail: k7.
#include "codegen/x86/machine.h"

#include "base/error.h"

namespace lathe::codegen::x86 {
namespace {

namespace reg = aj::x86;
namespace Instruction = aj::x86::Inst;
using InstructionId = Instruction::Id;

reg::Zmm z(int i) { return reg::Zmm(static_cast<uint32_t>(i)); }
reg::Xmm x(int i) { return reg::Xmm(static_cast<uint32_t>(i)); }
reg::KReg k(int i) { return reg::KReg(static_cast<uint32_t>(i) + 1); }
const reg::KReg kTail = reg::k7, kScratch = reg::k6;

class Avx512 final : public Machine {
 public:
  using Machine::Machine;

  int lanes() const override { return 16; }
  int vectors() const override { return 30; }
  int masks() const override { return 5; }

  void set_tail(const reg::Gp& count) override {
    a.mov(reg::r11d, -1);
    a.bzhi(reg::r11d, reg::r11d, count.r32());
    a.kmovw(kTail, reg::r11d);
  }

  void load(ElementType type, int to, Mem from, bool tail) override {
    switch (type) {
      case ElementType::boolean:
        masked(tail).vmovdqu8(x(31), from);
        a.vptestmb(k(to), x(31), x(31));
        return;
      case ElementType::u8:
        masked(tail).vpmovzxbd(z(to), from);
        return;
      case ElementType::i8:
        masked(tail).vpmovsxbd(z(to), from);
        return;
      case ElementType::u16:
        masked(tail).vpmovzxwd(z(to), from);
        return;
      case ElementType::i16:
        masked(tail).vpmovsxwd(z(to), from);
        return;
      case ElementType::f16:
        masked(tail).vcvtph2ps(z(to), from);
        return;
      case ElementType::bf16:
        masked(tail).vpmovzxwd(z(to), from);
        a.vpslld(z(to), z(to), 16);
        return;
      case ElementType::i64:
      case ElementType::u64:
        return load_half(false, to, from, tail);
      default:
        masked(tail).vmovups(z(to), from);
    }
  }

  void load_half(bool high, int to, Mem from, bool tail) override {
    for (const int half : {0, 1}) {
      if (tail) a.k(half_of_tail(half)).z();
      a.vmovdqu64(z(31), from.cloneAdjusted(half * 64));
      if (high) a.vpsrlq(z(31), z(31), 32);
      a.vpmovqd(reg::Ymm(half == 0 ? static_cast<uint32_t>(to) : 31), z(31));
    }
    a.vinserti64x4(z(to), z(to), reg::Ymm(31), 1);
  }

  void store_halves(int low, int high, Mem to, bool tail) override {
    for (const int half : {0, 1}) {
      for (const auto& [from, scratch] : {std::pair(low, 31), std::pair(high, 30)}) {
        const reg::Ymm part(static_cast<uint32_t>(scratch));
        a.vextracti64x4(part, z(from), half);
        a.vpmovzxdq(z(scratch), part);
      }
      a.vpsllq(z(30), z(30), 32);
      a.vporq(z(31), z(31), z(30));
      if (tail) a.k(half_of_tail(half));
      a.vmovdqu64(to.cloneAdjusted(half * 64), z(31));
    }
  }

  void store(ElementType type, int from, Mem to, bool tail) override {
    switch (type) {
      case ElementType::boolean:
        a.vpmovm2b(x(31), k(from));
        a.vpabsb(x(31), x(31));
        into(tail).vmovdqu8(to, x(31));
        return;
      case ElementType::u8:
      case ElementType::i8:
        into(tail).vpmovdb(to, z(from));
        return;
      case ElementType::u16:
      case ElementType::i16:
        into(tail).vpmovdw(to, z(from));
        return;
      case ElementType::f16:
        into(tail).vcvtps2ph(to, z(from), 0);
        return;
      case ElementType::bf16:
        round_bf16(from);
        into(tail).vpmovdw(to, z(31));
        return;
      case ElementType::i64:
      case ElementType::u64:
        return store_wide(from, to, tail);
      default:
        into(tail).vmovups(to, z(from));
    }
  }

  void load_cell(ExprType type, int to, Mem from) override {
    if (type != ExprType::boolean) {
      a.vbroadcastss(z(to), from);
      return;
    }
    a.vpbroadcastd(z(31), from);
    a.vptestmd(k(to), z(31), z(31));
  }
  void store_cell(ExprType type, int from, Mem to) override {
    if (type == ExprType::boolean) a.vpmovm2d(z(31), k(from));
    a.vmovss(to, x(type == ExprType::boolean ? 31 : from));
  }
  void spill(ExprType type, int from, Mem to) override {
    if (type == ExprType::boolean) {
      a.kmovw(to, k(from));
    } else {
      a.vmovaps(to, z(from));
    }
  }
  void reload(ExprType type, int to, Mem from) override {
    if (type == ExprType::boolean) {
      a.kmovw(k(to), from);
    } else {
      a.vmovaps(z(to), from);
    }
  }

  void fill_beyond_tail(int value, uint32_t other) override {
    a.knotw(kScratch, kTail);
    a.k(kScratch).vbroadcastss(z(value), pool_.cell(other));
  }

  void reduce(const Node& operation, Mem from, Mem to) override {
    const auto combine = [&](int first, int second) {
      operate(operation, first, std::array{value_in(first), value_in(second)});
    };
    a.vmovaps(z(0), from);
    a.vmovaps(z(1), from.cloneAdjusted(64)), combine(0, 1);
    a.vextractf64x4(reg::ymm1, z(0), 1), combine(0, 1);
    a.vextractf128(x(1), reg::ymm0, 1), combine(0, 1);
    a.vpermilpd(x(1), x(0), 1), combine(0, 1);
    a.vmovshdup(x(1), x(0)), combine(0, 1);
    a.vmovss(to, x(0));
  }

  std::vector<Node> rewrite(std::vector<Node> nodes) const override {
    return with_negated_products(with_scalings(std::move(nodes)));
  }

  unsigned cell_inputs(const Node& node) const override {
    if (is_scaling(node)) return 0;
    if (node.input_type == ExprType::boolean && node.op != ExprOp::select) return 0;
    switch (node.op) {
      case ExprOp::add:
      case ExprOp::mul:
      case ExprOp::min:
      case ExprOp::max:
      case ExprOp::bit_and:
      case ExprOp::bit_or:
      case ExprOp::bit_xor:
        return 0b11;
      case ExprOp::sub:
      case ExprOp::div:
      case ExprOp::shift_left:
      case ExprOp::shift_right:
        return 0b10;
      case ExprOp::fma:
        return 0b111;
      case ExprOp::select:
        return node.type == ExprType::boolean ? 0 : 0b110;
      default:
        return is_comparison(node.op) ? 0b11 : 0;
    }
  }

  unsigned shared_inputs(const Node& node) const override {
    const bool floats = node.input_type == ExprType::f32;
    switch (node.op) {
      case ExprOp::min:
      case ExprOp::max:
        return floats ? 0b01 : 0b11;
      case ExprOp::convert:
        return floats && node.type == ExprType::i32 ? 0 : 0b1;
      case ExprOp::select:
        return node.type == ExprType::boolean ? 0 : 0b110;
      default:
        return 0b111;
    }
  }

  void operate(const Node& node, int to, std::span<const Source> in) override {
    if (is_comparison(node.op)) return compare(node, to, in);
    switch (node.op) {
      case ExprOp::select:
        return select(node, to, in);
      case ExprOp::convert:
        return convert(node, to, in[0]);
      case ExprOp::is_nan:
        a.vcmpps(k(to), z(in[0].reg), z(in[0].reg), kUnordered);
        return;
      default:
        break;
    }
    if (node.type == ExprType::boolean) return operate_booleans(node, to, in);
    node.type == ExprType::f32 ? operate_floats(node, to, in) : operate_integers(node, to, in);
  }

 private:
  reg::Assembler& masked(bool tail) {
    if (tail) a.k(kTail).z();
    return a;
  }
  reg::Assembler& into(bool tail) {
    if (tail) a.k(kTail);
    return a;
  }
  // The mask of the tail in 8 lanes.
  reg::KReg half_of_tail(int half) {
    if (half == 0) return kTail;
    a.kshiftrw(kScratch, kTail, 8);
    return kScratch;
  }
  static Mem all_lanes(Mem cell) { return cell._1to16(); }
  Mem constant(uint32_t bits) { return all_lanes(pool_.cell(bits)); }
  static aj::Operand operand(const Source& source) {
    if (source.reg >= 0) return z(source.reg);
    return all_lanes(source.cell);
  }

  void emit(InstructionId id, int to, const Source& first, const Source& second) {
    a.emit(id, z(to), z(first.reg), operand(second));
  }
  void emit_commutative(InstructionId id, int to, std::span<const Source> in) {
    in[0].reg < 0 ? emit(id, to, in[1], in[0]) : emit(id, to, in[0], in[1]);
  }

  // Stores i32 with their signs extended.
  void store_wide(int from, Mem to, bool tail) {
    for (const int half : {0, 1}) {
      a.vextracti64x4(reg::Ymm(31), z(from), half);
      a.vpmovsxdq(z(31), reg::Ymm(31));
      if (tail) a.k(half_of_tail(half));
      a.vmovdqu64(to.cloneAdjusted(half * 64), z(31));
    }
  }

  // To the low halves of zmm31. NaN: its sign and the quiet bit.
  void round_bf16(int from) {
    a.vpsrld(z(31), z(from), 16);
    a.vpandd(z(31), z(31), constant(1));
    a.vpaddd(z(31), z(31), z(from));
    a.vpaddd(z(31), z(31), constant(0x7fff));
    a.vcmpps(kScratch, z(from), z(from), kUnordered);
    a.k(kScratch).vpandd(z(31), z(from), constant(kSign));
    a.k(kScratch).vpord(z(31), z(31), constant(kQuietNan));
    a.vpsrld(z(31), z(31), 16);
  }

  void compare(const Node& node, int to, std::span<const Source> in) {
    if (node.input_type == ExprType::boolean) return compare_booleans(node.op, to, in);
    const bool swap = in[0].reg < 0;
    const ExprOp op = swap ? reversed(node.op) : node.op;
    const bool floats = node.input_type == ExprType::f32;
    a.emit(floats ? Instruction::kIdVcmpps : Instruction::kIdVpcmpd, k(to), z(in[swap ? 1 : 0].reg),
           operand(in[swap ? 0 : 1]),
           aj::imm(floats ? float_predicate(op) : integer_predicate(op)));
  }

  void compare_booleans(ExprOp op, int to, std::span<const Source> in) {
    const reg::KReg p = k(in[0].reg), q = k(in[1].reg), out = k(to);
    switch (op) {
      case ExprOp::eq:
        a.kxnorw(out, p, q);
        return;
      case ExprOp::ne:
        a.kxorw(out, p, q);
        return;
      case ExprOp::lt:
        a.kandnw(out, p, q);
        return;
      case ExprOp::gt:
        a.kandnw(out, q, p);
        return;
      default:
        a.knotw(kScratch, op == ExprOp::le ? p : q);
        a.korw(out, kScratch, op == ExprOp::le ? q : p);
    }
  }

  void operate_booleans(const Node& node, int to, std::span<const Source> in) {
    const reg::KReg p = k(in[0].reg), out = k(to);
    switch (node.op) {
      case ExprOp::bit_not:
        a.knotw(out, p);
        return;
      case ExprOp::bit_and:
      case ExprOp::min:
        a.kandw(out, p, k(in[1].reg));
        return;
      case ExprOp::bit_or:
      case ExprOp::max:
        a.korw(out, p, k(in[1].reg));
        return;
      default:
        a.kxorw(out, p, k(in[1].reg));
    }
  }

  void select(const Node& node, int to, std::span<const Source> in) {
    const reg::KReg condition = k(in[0].reg);
    if (node.type == ExprType::boolean) {
      a.kandnw(kScratch, condition, k(in[2].reg));
      a.kandw(k(to), condition, k(in[1].reg));
      a.korw(k(to), k(to), kScratch);
    } else if (in[2].reg >= 0) {
      a.k(condition).emit(Instruction::kIdVblendmps, z(to), z(in[2].reg), operand(in[1]));
    } else if (in[2].node->bits == 0 && in[2].node->kind == Node::Kind::constant) {
      a.k(condition).z().vmovaps(z(to), z(in[1].reg));
    } else {
      a.knotw(kScratch, condition);
      a.k(kScratch).emit(Instruction::kIdVblendmps, z(to), z(in[1].reg), operand(in[2]));
    }
  }

  void convert(const Node& node, int to, const Source& in) {
    const ExprType from = node.input_type;
    if (from == ExprType::boolean) {
      if (node.type == ExprType::boolean) return void(a.kmovw(k(to), k(in.reg)));
      const uint32_t one = node.type == ExprType::f32 ? kOne : 1;
      a.k(k(in.reg)).z().vbroadcastss(z(to), pool_.cell(one));
    } else if (node.type == ExprType::boolean) {
      if (from == ExprType::f32) {
        a.vpxord(x(31), x(31), x(31));
        a.vcmpps(k(to), z(in.reg), z(31), float_predicate(ExprOp::ne));
      } else {
        a.vptestmd(k(to), z(in.reg), z(in.reg));
      }
    } else if (from == node.type) {
      if (to != in.reg) a.vmovaps(z(to), z(in.reg));
    } else if (from == ExprType::i32) {
      a.vcvtdq2ps(z(to), z(in.reg));
    } else if (LinearForm::truncates(node)) {
      a.vcvttps2dq(z(to), z(in.reg));
    } else {  // saturates; NaN becomes 0
      a.vcvttps2dq(z(to), z(in.reg));
      a.vcmpps(kScratch, z(in.reg), constant(kBeyondInt), float_predicate(ExprOp::ge));
      a.k(kScratch).vpbroadcastd(z(to), pool_.cell(kMaxInt));
      a.vcmpps(kScratch, z(in.reg), z(in.reg), kOrdered);
      a.k(kScratch).z().vmovaps(z(to), z(to));
    }
  }

  static bool is_scaling(const Node& node) {
    return node.op == ExprOp::shift_left && node.type == ExprType::f32;
  }

  void operate_floats(const Node& node, int to, std::span<const Source> in) {
    switch (node.op) {
      case ExprOp::shift_left:
        a.vcvtdq2ps(z(31), z(in[1].reg));
        a.vscalefps(z(to), z(in[0].reg), z(31));
        return;
      case ExprOp::add:
        return emit_commutative(Instruction::kIdVaddps, to, in);
      case ExprOp::mul:
        return emit_commutative(Instruction::kIdVmulps, to, in);
      case ExprOp::sub:
        return emit(Instruction::kIdVsubps, to, in[0], in[1]);
      case ExprOp::div:
        return emit(Instruction::kIdVdivps, to, in[0], in[1]);
      case ExprOp::fma:
        return fma(negates_product(node), to, in);
      case ExprOp::min:
      case ExprOp::max:
        return choose(node.op == ExprOp::min ? Instruction::kIdVminps : Instruction::kIdVmaxps, to,
                      in);
      case ExprOp::neg:
        a.vxorps(z(to), z(in[0].reg), constant(kSign));
        return;
      case ExprOp::abs:
        a.vandps(z(to), z(in[0].reg), constant(kMaxInt));
        return;
      case ExprOp::sqrt:
        a.vsqrtps(z(to), z(in[0].reg));
        return;
      default:
        a.vrndscaleps(z(to), z(in[0].reg), rounding_mode(node.op));
    }
  }

  // vminps returns its second operand if the operands are equal or one is NaN.
  void choose(InstructionId id, int to, std::span<const Source> in) {
    const Source& second = in[1];
    if (second.reg < 0) {
      a.vbroadcastss(z(31), second.cell);
      const bool plain = is_number(*second.node);
      if (!plain) a.vcmpps(kScratch, z(31), z(31), kUnordered);
      a.emit(id, z(to), z(31), z(in[0].reg));
      if (!plain) a.k(kScratch).vmovaps(z(to), z(31));
      return;
    }
    a.vcmpps(kScratch, z(second.reg), z(second.reg), kUnordered);
    a.emit(id, z(to), z(second.reg), operand(in[0]));
    a.k(kScratch).vmovaps(z(to), z(second.reg));
  }

  void fma(bool negated, int to, std::span<const Source> in) {
    const InstructionId by_213 =
        negated ? Instruction::kIdVfnmadd213ps : Instruction::kIdVfmadd213ps;
    const InstructionId by_132 =
        negated ? Instruction::kIdVfnmadd132ps : Instruction::kIdVfmadd132ps;
    const InstructionId by_231 =
        negated ? Instruction::kIdVfnmadd231ps : Instruction::kIdVfmadd231ps;
    const bool first_cell = in[0].reg < 0;
    const Source& p = in[first_cell ? 1 : 0];  // a factor in a register
    const Source& q = in[first_cell ? 0 : 1];
    const Source& sum = in[2];
    if (sum.reg < 0) {  // p in a register, and q
      if (to == q.reg) return void(a.emit(by_213, z(to), z(p.reg), operand(sum)));
      if (to != p.reg) a.vmovaps(z(to), z(p.reg));
      a.emit(by_213, z(to), z(q.reg), operand(sum));
    } else if (to == p.reg && to != sum.reg) {
      a.emit(by_132, z(to), z(sum.reg), operand(q));
    } else if (to == q.reg && to != sum.reg) {
      a.emit(by_132, z(to), z(sum.reg), operand(p));
    } else {
      if (to != sum.reg) a.vmovaps(z(to), z(sum.reg));
      a.emit(by_231, z(to), z(p.reg), operand(q));
    }
  }

  void operate_integers(const Node& node, int to, std::span<const Source> in) {
    switch (node.op) {
      case ExprOp::add:
        return emit_commutative(Instruction::kIdVpaddd, to, in);
      case ExprOp::mul:
        return emit_commutative(Instruction::kIdVpmulld, to, in);
      case ExprOp::min:
        return emit_commutative(Instruction::kIdVpminsd, to, in);
      case ExprOp::max:
        return emit_commutative(Instruction::kIdVpmaxsd, to, in);
      case ExprOp::bit_and:
        return emit_commutative(Instruction::kIdVpandd, to, in);
      case ExprOp::bit_or:
        return emit_commutative(Instruction::kIdVpord, to, in);
      case ExprOp::bit_xor:
        return emit_commutative(Instruction::kIdVpxord, to, in);
      case ExprOp::sub:
        return emit(Instruction::kIdVpsubd, to, in[0], in[1]);
      case ExprOp::neg:
        a.vpxord(x(31), x(31), x(31));
        a.vpsubd(z(to), z(31), z(in[0].reg));
        return;
      case ExprOp::abs:
        a.vpabsd(z(to), z(in[0].reg));
        return;
      case ExprOp::bit_not:
        a.vpternlogd(z(to), z(in[0].reg), z(in[0].reg), 0x55);
        return;
      default: {
        const bool left = node.op == ExprOp::shift_left;
        if (in[1].reg < 0 && in[1].node->kind == Node::Kind::constant && in[1].node->bits < 32) {
          const auto amount = static_cast<int>(in[1].node->bits);
          a.emit(left ? Instruction::kIdVpslld : Instruction::kIdVpsrad, z(to), z(in[0].reg),
                 aj::imm(amount));
        } else {
          emit(left ? Instruction::kIdVpsllvd : Instruction::kIdVpsravd, to, in[0], in[1]);
        }
      }
    }
  }
};

}  // namespace

std::unique_ptr<Machine> make_avx512(reg::Assembler& to, ConstantPool& pool) {
  return std::make_unique<Avx512>(to, pool);
}

}  // namespace lathe::codegen::x86
