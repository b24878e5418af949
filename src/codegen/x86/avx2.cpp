// SPDX-License-Identifier: MIT
// AVX2, FMA, F16C, BMI2. Values: ymm0 … ymm12, booleans among them; tail: ymm13 and, as a number,
// r11; scratch: ymm14, ymm15.
#include "codegen/x86/machine.h"

namespace lathe::codegen::x86 {
namespace {

namespace reg = aj::x86;
namespace Instruction = aj::x86::Inst;
using InstructionId = Instruction::Id;

reg::Ymm y(int i) { return reg::Ymm(static_cast<uint32_t>(i)); }
reg::Xmm x(int i) { return reg::Xmm(static_cast<uint32_t>(i)); }

class Avx2 final : public Machine {
 public:
  using Machine::Machine;

  int lanes() const override { return 8; }
  int vectors() const override { return 13; }
  int masks() const override { return 0; }

  void set_tail(const reg::Gp& count) override {
    a.mov(reg::r11, count);
    a.lea(reg::rax, reg::ptr(pool_.lane_masks(), 32));
    a.neg(reg::r11);
    a.vmovdqu(y(13), reg::ptr(reg::rax, reg::r11, 2));
    a.neg(reg::r11);
  }

  void load(ElementType type, int to, Mem from, bool tail) override {
    const int bytes = info(type).bits / 8;
    if (bytes == 4) {
      tail ? a.vmaskmovps(y(to), y(13), from) : a.vmovups(y(to), from);
      return;
    }
    if (bytes == 8) return load_half(false, to, from, tail);
    Mem source = from;
    if (tail) load_elements(bytes, from);
    // Widens elements in memory or, in a tail, in xmm14.
    const auto widen = [&](InstructionId id) {
      tail ? a.emit(id, y(to), x(14)) : a.emit(id, y(to), source);
    };
    switch (type) {
      case ElementType::boolean:
        widen(Instruction::kIdVpmovzxbd);
        a.vpxor(x(15), x(15), x(15));
        a.vpcmpgtd(y(to), y(to), y(15));
        return;
      case ElementType::u8:
        return widen(Instruction::kIdVpmovzxbd);
      case ElementType::i8:
        return widen(Instruction::kIdVpmovsxbd);
      case ElementType::u16:
        return widen(Instruction::kIdVpmovzxwd);
      case ElementType::i16:
        return widen(Instruction::kIdVpmovsxwd);
      case ElementType::f16:
        return widen(Instruction::kIdVcvtph2ps);
      default:  // bf16
        widen(Instruction::kIdVpmovzxwd);
        a.vpslld(y(to), y(to), 16);
    }
  }

  void load_half(bool high, int to, Mem from, bool tail) override {
    for (const int half : {0, 1}) {
      const Mem part = from.cloneAdjusted(half * 32);
      if (!tail) {
        a.vmovdqu(y(14 + half), part);
        continue;
      }
      a.vextracti128(x(to), y(13), half);
      a.vpmovsxdq(y(to), x(to));
      a.vpmaskmovq(y(14 + half), y(to), part);
    }
    constexpr int kLowHalves = 0x88, kHighHalves = 0xdd, kMiddleExchanged = 0xd8;
    a.vshufps(y(to), y(14), y(15), high ? kHighHalves : kLowHalves);
    a.vpermq(y(to), y(to), kMiddleExchanged);
  }

  // Elements 0 and 1, 2 and 3, and then 4 and 5, 6 and 7, lie in xmm14 and xmm15.
  void store_halves(int low, int high, Mem to, bool tail) override {
    a.vpunpckldq(y(14), y(low), y(high));
    a.vpunpckhdq(y(15), y(low), y(high));
    if (!tail) {
      for (const int part : {0, 1}) {
        a.vmovdqu(to.cloneAdjusted(part * 16), x(14 + part));
        a.vextracti128(to.cloneAdjusted(32 + part * 16), y(14 + part), 1);
      }
      return;
    }
    for_tail([&](int i) {
      const int own = 14 + i / 2 % 2;
      if (i == 4 || i == 6) a.vextracti128(x(own), y(own), 1);
      a.vpextrq(to.cloneAdjusted(i * 8), x(own), i % 2);
    });
  }

  void store(ElementType type, int from, Mem to, bool tail) override {
    switch (type) {
      case ElementType::boolean:
        a.vpsrld(y(15), y(from), 31);
        break;
      case ElementType::u8:
      case ElementType::i8:
        a.vpand(y(15), y(from), pool_.vector(0xff));
        break;
      case ElementType::u16:
      case ElementType::i16:
        a.vpand(y(15), y(from), pool_.vector(0xffff));
        break;
      case ElementType::f16:
        a.vcvtps2ph(x(15), y(from), 0);
        return store_elements(2, to, tail);
      case ElementType::i64:
      case ElementType::u64:
        return store_wide(from, to, tail);
      case ElementType::bf16:
        round_bf16(from);
        break;
      default:
        tail ? a.vmaskmovps(to, y(13), y(from)) : a.vmovups(to, y(from));
        return;
    }
    a.vextracti128(x(14), y(15), 1);
    a.vpackusdw(x(15), x(15), x(14));
    const int bytes = info(type).bits / 8;
    if (bytes == 1) a.vpackuswb(x(15), x(15), x(15));
    store_elements(bytes, to, tail);
  }

  void load_cell(ExprType /*type*/, int to, Mem from) override { a.vbroadcastss(y(to), from); }
  void store_cell(ExprType /*type*/, int from, Mem to) override { a.vmovss(to, x(from)); }
  void spill(ExprType /*type*/, int from, Mem to) override { a.vmovaps(to, y(from)); }
  void reload(ExprType /*type*/, int to, Mem from) override { a.vmovaps(y(to), from); }

  void fill_beyond_tail(int value, uint32_t other) override {
    a.vmovaps(y(15), pool_.vector(other));
    a.vblendvps(y(value), y(15), y(value), y(13));
  }

  void reduce(const Node& operation, Mem from, Mem to) override {
    const auto combine = [&](int first, int second) {
      operate(operation, first, std::array{value_in(first), value_in(second)});
    };
    constexpr int kRegisters = kPartialResults / 8;
    for (int i = 0; i < kRegisters; ++i) a.vmovaps(y(i), from.cloneAdjusted(i * 32));
    combine(0, 2), combine(1, 3), combine(0, 1);
    a.vextractf128(x(1), y(0), 1), combine(0, 1);
    a.vpermilpd(x(1), x(0), 1), combine(0, 1);
    a.vmovshdup(x(1), x(0)), combine(0, 1);
    a.vmovss(to, x(0));
  }

  std::vector<Node> rewrite(std::vector<Node> nodes) const override {
    return with_negated_products(std::move(nodes));
  }

  unsigned cell_inputs(const Node& node) const override {
    return node.op == ExprOp::shift_left || node.op == ExprOp::shift_right ? 0b10 : 0;
  }
  unsigned shared_inputs(const Node& /*node*/) const override { return 0b111; }

  void operate(const Node& node, int to, std::span<const Source> in) override {
    if (is_comparison(node.op)) {
      return node.input_type == ExprType::f32 ? compare(node.op, to, in)
                                              : compare_integers(node, to, in);
    }
    switch (node.op) {
      case ExprOp::select:
        a.vblendvps(y(to), y(in[2].reg), y(in[1].reg), y(in[0].reg));
        return;
      case ExprOp::convert:
        return convert(node, to, in[0].reg);
      case ExprOp::is_nan:
        a.vcmpps(y(to), y(in[0].reg), y(in[0].reg), kUnordered);
        return;
      default:
        break;
    }
    node.type == ExprType::f32 ? operate_floats(node, to, in) : operate_integers(node, to, in);
  }

 private:
  void set_ones(int to) { a.vpcmpeqd(y(to), y(to), y(to)); }
  void emit(InstructionId id, int to, std::span<const Source> in) {
    a.emit(id, y(to), y(in[0].reg), y(in[1].reg));
  }
  void invert(int value) {
    set_ones(15);
    a.vpxor(y(value), y(value), y(15));
  }

  // Calls f for each element of a tail.
  template <class F>
  void for_tail(F&& f) {
    const aj::Label end = a.newLabel();
    for (int i = 0; i + 1 < lanes(); ++i) {
      a.cmp(reg::r11, i);
      a.jle(end);
      f(i);
    }
    a.bind(end);
  }
  void load_elements(int bytes, Mem from) {
    a.vpxor(x(14), x(14), x(14));
    for_tail([&](int i) {
      const Mem element = from.cloneAdjusted(i * bytes);
      bytes == 1 ? a.vpinsrb(x(14), x(14), element, i) : a.vpinsrw(x(14), x(14), element, i);
    });
  }
  // Stores elements of xmm15.
  void store_elements(int bytes, Mem to, bool tail) {
    if (!tail) {
      bytes == 1 ? a.vmovq(to, x(15)) : a.vmovdqu(to, x(15));
      return;
    }
    for_tail([&](int i) {
      const Mem element = to.cloneAdjusted(i * bytes);
      bytes == 1 ? a.vpextrb(element, x(15), i) : a.vpextrw(element, x(15), i);
    });
  }

  // Stores i32 with their signs extended.
  void store_wide(int from, Mem to, bool tail) {
    for (const int half : {0, 1}) {
      const Mem part = to.cloneAdjusted(half * 32);
      a.vextracti128(x(14), y(from), half);
      a.vpmovsxdq(y(14), x(14));
      if (!tail) {
        a.vmovdqu(part, y(14));
        continue;
      }
      a.vextracti128(x(15), y(13), half);
      a.vpmovsxdq(y(15), x(15));
      a.vpmaskmovq(part, y(15), y(14));
    }
  }

  // To the low halves of ymm15. NaN: its sign and the quiet bit.
  void round_bf16(int from) {
    a.vpsrld(y(15), y(from), 16);
    a.vpand(y(15), y(15), pool_.vector(1));
    a.vpaddd(y(15), y(15), y(from));
    a.vpaddd(y(15), y(15), pool_.vector(0x7fff));
    a.vcmpps(y(14), y(from), y(from), kUnordered);
    a.vblendvps(y(15), y(15), pool_.vector(kQuietNan), y(14));
    a.vpand(y(14), y(14), pool_.vector(kSign));
    a.vpand(y(14), y(14), y(from));
    a.vpor(y(15), y(15), y(14));
    a.vpsrld(y(15), y(15), 16);
  }

  void compare(ExprOp op, int to, std::span<const Source> in) {
    a.vcmpps(y(to), y(in[0].reg), y(in[1].reg), float_predicate(op));
  }

  // Booleans are 0 and -1: their order is that of integers reversed.
  void compare_integers(const Node& node, int to, std::span<const Source> in) {
    const bool reversed = node.input_type == ExprType::boolean;
    const reg::Ymm p = y(in[reversed ? 1 : 0].reg), q = y(in[reversed ? 0 : 1].reg);
    switch (node.op) {
      case ExprOp::eq:
      case ExprOp::ne:
        a.vpcmpeqd(y(to), p, q);
        break;
      case ExprOp::gt:
      case ExprOp::le:
        a.vpcmpgtd(y(to), p, q);
        break;
      default:
        a.vpcmpgtd(y(to), q, p);
    }
    if (node.op == ExprOp::ne || node.op == ExprOp::le || node.op == ExprOp::ge) invert(to);
  }

  void convert(const Node& node, int to, int in) {
    const ExprType from = node.input_type;
    if (from == node.type) {
      if (to != in) a.vmovaps(y(to), y(in));
    } else if (from == ExprType::boolean && node.type == ExprType::i32) {
      a.vpsrld(y(to), y(in), 31);
    } else if (from == ExprType::boolean) {
      a.vandps(y(to), y(in), pool_.vector(kOne));
    } else if (node.type == ExprType::boolean) {
      a.vpxor(x(15), x(15), x(15));
      if (from == ExprType::f32) {
        a.vcmpps(y(to), y(in), y(15), float_predicate(ExprOp::ne));
      } else {
        a.vpcmpeqd(y(to), y(in), y(15));
        invert(to);
      }
    } else if (from == ExprType::i32) {
      a.vcvtdq2ps(y(to), y(in));
    } else if (LinearForm::truncates(node)) {
      a.vcvttps2dq(y(to), y(in));
    } else {  // saturates; NaN becomes 0
      a.vcvttps2dq(y(14), y(in));
      a.vcmpps(y(15), y(in), pool_.vector(kBeyondInt), float_predicate(ExprOp::ge));
      a.vpxor(y(14), y(14), y(15));  // the minimum becomes the maximum
      a.vcmpps(y(15), y(in), y(in), kOrdered);
      a.vpand(y(to), y(14), y(15));
    }
  }

  void operate_floats(const Node& node, int to, std::span<const Source> in) {
    switch (node.op) {
      case ExprOp::add:
        return emit(Instruction::kIdVaddps, to, in);
      case ExprOp::mul:
        return emit(Instruction::kIdVmulps, to, in);
      case ExprOp::sub:
        return emit(Instruction::kIdVsubps, to, in);
      case ExprOp::div:
        return emit(Instruction::kIdVdivps, to, in);
      case ExprOp::fma:
        return fma(negates_product(node), to, in);
      case ExprOp::min:
        return choose(Instruction::kIdVminps, to, in);
      case ExprOp::max:
        return choose(Instruction::kIdVmaxps, to, in);
      case ExprOp::neg:
        a.vxorps(y(to), y(in[0].reg), pool_.vector(kSign));
        return;
      case ExprOp::abs:
        a.vandps(y(to), y(in[0].reg), pool_.vector(kMaxInt));
        return;
      case ExprOp::sqrt:
        a.vsqrtps(y(to), y(in[0].reg));
        return;
      default:
        a.vroundps(y(to), y(in[0].reg), rounding_mode(node.op));
    }
  }

  // vminps returns its second operand if the operands are equal or one is NaN.
  void choose(InstructionId id, int to, std::span<const Source> in) {
    const reg::Ymm first = y(in[0].reg), second = y(in[1].reg);
    if (is_number(*in[1].node)) return void(a.emit(id, y(to), second, first));
    a.vcmpps(y(15), second, second, kUnordered);
    a.emit(id, y(14), second, first);
    a.vblendvps(y(to), y(14), second, y(15));
  }

  void fma(bool negated, int to, std::span<const Source> in) {
    const int p = in[0].reg, q = in[1].reg, sum = in[2].reg;
    if (to != sum && (to == p || to == q)) {
      const InstructionId id = negated ? Instruction::kIdVfnmadd213ps : Instruction::kIdVfmadd213ps;
      a.emit(id, y(to), y(to == p ? q : p), y(sum));
      return;
    }
    if (to != sum) a.vmovaps(y(to), y(sum));
    const InstructionId id = negated ? Instruction::kIdVfnmadd231ps : Instruction::kIdVfmadd231ps;
    a.emit(id, y(to), y(p), y(q));
  }

  void operate_integers(const Node& node, int to, std::span<const Source> in) {
    const bool booleans = node.type == ExprType::boolean;
    switch (node.op) {
      case ExprOp::add:
        return emit(Instruction::kIdVpaddd, to, in);
      case ExprOp::sub:
        return emit(Instruction::kIdVpsubd, to, in);
      case ExprOp::mul:
        return emit(Instruction::kIdVpmulld, to, in);
      case ExprOp::min:
        return emit(booleans ? Instruction::kIdVpand : Instruction::kIdVpminsd, to, in);
      case ExprOp::max:
        return emit(booleans ? Instruction::kIdVpor : Instruction::kIdVpmaxsd, to, in);
      case ExprOp::bit_and:
        return emit(Instruction::kIdVpand, to, in);
      case ExprOp::bit_or:
        return emit(Instruction::kIdVpor, to, in);
      case ExprOp::bit_xor:
        return emit(Instruction::kIdVpxor, to, in);
      case ExprOp::neg:
        a.vpxor(x(15), x(15), x(15));
        a.vpsubd(y(to), y(15), y(in[0].reg));
        return;
      case ExprOp::abs:
        a.vpabsd(y(to), y(in[0].reg));
        return;
      case ExprOp::bit_not:
        set_ones(15);
        a.vpxor(y(to), y(in[0].reg), y(15));
        return;
      default:
        return shift(node.op == ExprOp::shift_left, to, in[0].reg, in[1]);
    }
  }

  void shift(bool left, int to, int in, const Source& amount) {
    if (amount.reg < 0 && amount.node->kind == Node::Kind::constant && amount.node->bits < 32) {
      const auto count = static_cast<int>(amount.node->bits);
      left ? a.vpslld(y(to), y(in), count) : a.vpsrad(y(to), y(in), count);
      return;
    }
    int by = amount.reg;
    if (by < 0) {
      by = 15;
      a.vbroadcastss(y(by), amount.cell);
    }
    left ? a.vpsllvd(y(to), y(in), y(by)) : a.vpsravd(y(to), y(in), y(by));
  }
};

}  // namespace

std::unique_ptr<Machine> make_avx2(reg::Assembler& to, ConstantPool& pool) {
  return std::make_unique<Avx2>(to, pool);
}

}  // namespace lathe::codegen::x86
