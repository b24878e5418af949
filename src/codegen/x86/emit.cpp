// SPDX-License-Identifier: MIT
// Registers: rdi the call, rdx columns, rcx the first column of an iteration, r11 of the next one;
// rax scratch; the others hold the first operands' row pointers. Those beyond them stay in the
// call.
#include "codegen/x86/emit.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/x86/body.h"

namespace lathe::codegen::x86 {
namespace {

namespace reg = aj::x86;

constexpr int kSlots = 96;            // of 64 bytes, in the frame
constexpr size_t kMaxReductions = 2;  // of a phase: their partial results lie in registers
constexpr int kPartialsAt = kSlots * 64;
constexpr int kPartialsSize = kPartialResults * 4;  // of a reduction
constexpr int kCellsAt = kPartialsAt + static_cast<int>(kMaxReductions) * kPartialsSize;
constexpr int kInvariants = 40;  // cells of 4 bytes, behind those of operands
constexpr int kCell = 8;         // bytes, for an operand
constexpr int kInvariantsAt = kCellsAt + static_cast<int>(kMaxOperands) * kCell;
constexpr int kRowsAt = kInvariantsAt + kInvariants * 4;  // rows that are left
constexpr int kFrame = (kRowsAt + 8 + 63) / 64 * 64;

class ThrowingHandler final : public aj::ErrorHandler {
 public:
  void handleError(aj::Error error, const char* message, aj::BaseEmitter* /*origin*/) override {
    fail(ErrorKind::internal, "code generation: error {}: {}", error, message);
  }
};

class Emitter {
 public:
  Emitter(const KernelDescription& kernel, Isa isa, std::string* log) : kernel_(kernel), log_(log) {
    const aj::Error error = code_.init(aj::Environment::host());
    check(error == aj::kErrorOk, ErrorKind::internal, "code generation: error {}", error);
    code_.setErrorHandler(&handler_);
    if (log != nullptr) code_.setLogger(&logger_);
    code_.attach(&a_);
    a_.addDiagnosticOptions(aj::DiagnosticOptions::kValidateAssembler);
    pool_.emplace(a_);
    machine_ = isa == Isa::avx512 ? make_avx512(a_, *pool_) : make_avx2(a_, *pool_);
    assign_pointers();
  }

  Code emit() {
    BodyMemory memory;
    memory.elements = [this](int operand, int step) { return elements(operand, step); };
    memory.operand_cell = [](int operand) { return cell_of(operand); };
    memory.invariant_cell = [](int index) { return reg::ptr(reg::rsp, kInvariantsAt + index * 4); };
    memory.invariants = kInvariants;
    memory.scalar_cell = [](int scalar) { return scalar_at(scalar); };
    memory.partial_results = [this](int index) { return partial_results(index); };
    memory.frame = [](int slot) { return reg::ptr(reg::rsp, slot * 64); };
    memory.slots = kSlots;
    const std::vector<Node> nodes = machine_->rewrite(kernel_.form.nodes());
    std::vector<Body> bodies;
    for (const Phase& phase : kernel_.phases) {
      bodies.emplace_back(kernel_, nodes, phase, *machine_, *pool_, memory);
    }

    enter();
    const aj::Label done = a_.newLabel();
    a_.cmp(rows(), 0);
    a_.jle(done);
    int unroll = 1;
    for (size_t i = 0; i < bodies.size(); ++i) {
      unroll = bodies[i].best_unroll();
      emit_phase(bodies[i], kernel_.phases[i], unroll);
      if (i + 1 < bodies.size()) rewind();
    }
    a_.bind(done);
    leave();
    pool_->embed();
    return overflow_ ? Code{} : Code{finish(), unroll};
  }

 private:
  static Mem cell_of(int operand) { return reg::ptr(reg::rsp, kCellsAt + operand * kCell); }
  static Mem rows() { return reg::qword_ptr(reg::rdi, offsetof(KernelCall, rows)); }
  static Mem columns() { return reg::qword_ptr(reg::rdi, offsetof(KernelCall, columns)); }
  static int pointer_at(int operand) {
    return static_cast<int>(offsetof(KernelCall, operands)) +
           operand * static_cast<int>(sizeof(KernelCall::Pointer));
  }
  static Mem pointer(int operand) { return reg::qword_ptr(reg::rdi, pointer_at(operand)); }
  static Mem scalar_at(int scalar) { return reg::ptr(kScalars, scalar * 4); }
  static Mem row_stride(int operand) { return reg::qword_ptr(reg::rdi, pointer_at(operand) + 8); }

  int bytes_of(int operand) const {
    return info(kernel_.operands[static_cast<size_t>(operand)].type).bits / 8;
  }
  bool one_per_row(size_t operand) const { return kernel_.operands[operand].one_per_row; }

  void assign_pointers() {
    const std::array<reg::Gp, 9> available{reg::r8,  reg::r9,  reg::r10, reg::rsi, reg::rbx,
                                           reg::r12, reg::r13, reg::r14, reg::r15};
    for (const Phase& phase : kernel_.phases) reduces_ = reduces_ || !phase.reductions.empty();
    const size_t count = available.size() - (reduces_ ? 1 : 0);
    pointers_.resize(kernel_.operands.size());
    size_t next = 0;
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (!one_per_row(i) && next < count) pointers_[i] = available[next++];
    }
  }

  // Memory of an operand at a step of the iteration; may load its pointer into rax.
  Mem elements(int operand, int step) {
    const int bytes = bytes_of(operand);
    reg::Gp base = pointers_[static_cast<size_t>(operand)];
    if (!base.isValid()) {
      a_.mov(reg::rax, pointer(operand));
      base = reg::rax;
    }
    const uint32_t shift = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    return reg::ptr(base, reg::rcx, shift, step * machine_->lanes() * bytes);
  }

  void enter() {
    a_.endbr64();
    a_.push(reg::rbp);
    a_.mov(reg::rbp, reg::rsp);
    for (const reg::Gp& saved : kSaved) a_.push(saved);
    a_.sub(reg::rsp, kFrame);
    a_.and_(reg::rsp, -64);
    a_.mov(reg::rdx, columns());
  }

  void emit_phase(Body& body, const Phase& phase, int unroll) {
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (pointers_[i].isValid()) a_.mov(pointers_[i], pointer(static_cast<int>(i)));
    }
    if (reduces_) a_.mov(kScalars, reg::qword_ptr(reg::rdi, offsetof(KernelCall, scalars)));
    a_.mov(reg::rax, rows());
    a_.mov(reg::qword_ptr(reg::rsp, kRowsAt), reg::rax);
    const aj::Label row = a_.newLabel();
    a_.bind(row);
    load_cells(body);
    body.emit_invariants();
    phase.reductions.empty() ? emit_row(body, unroll) : emit_reducing_row(body, phase, unroll);
    next_row();
    a_.dec(reg::qword_ptr(reg::rsp, kRowsAt));
    a_.jnz(row);
  }

  // Pointers in the call, back to the first row.
  void rewind() {
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (pointers_[i].isValid()) continue;
      const auto operand = static_cast<int>(i);
      a_.mov(reg::rax, row_stride(operand));
      a_.imul(reg::rax, rows());
      a_.sub(pointer(operand), reg::rax);
    }
  }

  void leave() {
    a_.vzeroupper();
    a_.lea(reg::rsp, reg::ptr(reg::rbp, -static_cast<int>(kSaved.size()) * 8));
    for (size_t i = kSaved.size(); i-- > 0;) a_.pop(kSaved[i]);
    a_.pop(reg::rbp);
    a_.ret();
  }

  // The row's elements of operands that have one.
  void load_cells(const Body& body) {
    bool tail_is_set = false;
    for (size_t i = 0; i < pointers_.size(); ++i) {
      if (!one_per_row(i) || !body.loads(static_cast<int>(i))) continue;
      if (kernel_.operands[i].type == ElementType::f32) {
        a_.mov(reg::rax, pointer(static_cast<int>(i)));
        a_.mov(reg::eax, reg::dword_ptr(reg::rax));
        a_.mov(cell_of(static_cast<int>(i)), reg::eax);
        continue;
      }
      if (bytes_of(static_cast<int>(i)) == kCell) {
        a_.mov(reg::rax, pointer(static_cast<int>(i)));
        a_.mov(reg::rax, reg::qword_ptr(reg::rax));
        a_.mov(cell_of(static_cast<int>(i)), reg::rax);
        continue;
      }
      if (!tail_is_set) {
        a_.mov(reg::ecx, 1);
        machine_->set_tail(reg::rcx);
        tail_is_set = true;
      }
      const auto operand = static_cast<int>(i);
      const ElementType type = kernel_.operands[i].type;
      a_.mov(reg::rax, pointer(operand));
      machine_->load(type, 0, reg::ptr(reg::rax), true);
      machine_->store_cell(type == ElementType::boolean ? ExprType::boolean : ExprType::f32, 0,
                           cell_of(operand));
    }
  }

  static Mem partials_at(int reduction) {
    return reg::ptr(reg::rsp, kPartialsAt + reduction * kPartialsSize);
  }
  // Those of the iteration's first column.
  Mem partial_results(int reduction) {
    a_.mov(reg::eax, reg::ecx);
    a_.and_(reg::eax, kPartialResults - 1);
    return reg::ptr(reg::rsp, reg::rax, 2, kPartialsAt + reduction * kPartialsSize);
  }

  // In registers as long as kPartialResults columns are left, then in the frame.
  void emit_reducing_row(Body& body, const Phase& phase, int unroll) {
    body.hold_partial_results(true);
    const auto for_all = [&](auto&& f) {
      for (size_t i = 0; i < phase.reductions.size(); ++i) {
        for (int step = 0; step < body.steps(); ++step) {
          f(phase.reductions[i], body.partial_result(static_cast<int>(i), step),
            partials_at(static_cast<int>(i)).cloneAdjusted(step * machine_->lanes() * 4));
        }
      }
    };
    for_all([&](const Reduction& reduction, int reg, const Mem&) {
      machine_->load_cell(ExprType::f32, reg, pool_->cell(neutral_bits(reduction.op)));
    });
    a_.xor_(reg::ecx, reg::ecx);
    const auto loop = [&](int steps, int copies) {
      emit_loop(steps, [&] {
        for (int step = 0; step < steps; step += copies) emit_body(body, step, copies, false);
      });
    };
    if (unroll > body.steps()) loop(unroll, unroll);
    loop(body.steps(), std::min(unroll, body.steps()));
    for_all(
        [&](const Reduction&, int reg, const Mem& to) { machine_->spill(ExprType::f32, reg, to); });
    body.hold_partial_results(false);
    emit_rest(body);
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const Reduction& reduction = phase.reductions[i];
      machine_->reduce({.op = reduction.op}, partials_at(static_cast<int>(i)),
                       scalar_at(reduction.scalar));
    }
  }

  void emit_row(Body& body, int unroll) {
    a_.xor_(reg::ecx, reg::ecx);
    if (unroll > 1) emit_loop(unroll, [&] { emit_body(body, 0, unroll, false); });
    emit_rest(body);
  }

  // Steps one by one, and the tail.
  void emit_rest(Body& body) {
    emit_loop(1, [&] { emit_body(body, 0, 1, false); });
    const aj::Label end = a_.newLabel();
    a_.mov(reg::rax, reg::rdx);
    a_.sub(reg::rax, reg::rcx);
    a_.jle(end);
    machine_->set_tail(reg::rax);
    emit_body(body, 0, 1, true);
    a_.bind(end);
  }

  // While `steps` are left.
  template <class F>
  void emit_loop(int steps, F&& iteration) {
    const aj::Label top = a_.newLabel(), end = a_.newLabel();
    const int step = steps * machine_->lanes();
    a_.lea(reg::r11, reg::ptr(reg::rcx, step));
    a_.cmp(reg::r11, reg::rdx);
    a_.jg(end);
    a_.bind(top);
    iteration();
    a_.mov(reg::rcx, reg::r11);
    a_.add(reg::r11, step);
    a_.cmp(reg::r11, reg::rdx);
    a_.jle(top);
    a_.bind(end);
  }

  void emit_body(Body& body, int first, int copies, bool tail) {
    overflow_ = !body.emit(first, copies, tail) || overflow_;
  }

  void next_row() {
    if (reduces_) a_.add(kScalars, kMaxScalars * 4);
    for (size_t i = 0; i < pointers_.size(); ++i) {
      const auto operand = static_cast<int>(i);
      if (pointers_[i].isValid()) {
        a_.add(pointers_[i], row_stride(operand));
      } else {
        a_.mov(reg::rax, row_stride(operand));
        a_.add(pointer(operand), reg::rax);
      }
    }
  }

  std::vector<std::byte> finish() {
    code_.flatten();
    code_.resolveUnresolvedLinks();
    code_.relocateToBase(0);
    std::vector<std::byte> bytes(code_.codeSize());
    code_.copyFlattenedData(bytes.data(), bytes.size());
    if (log_ != nullptr) *log_ = logger_.data();
    return bytes;
  }

  static constexpr reg::Gp kScalars = reg::r15;  // of the row, where the kernel reduces
  static constexpr std::array<reg::Gp, 5> kSaved{reg::rbx, reg::r12, reg::r13, reg::r14, reg::r15};

  const KernelDescription& kernel_;
  std::string* log_;
  ThrowingHandler handler_;
  aj::StringLogger logger_;
  aj::CodeHolder code_;
  reg::Assembler a_;
  std::optional<ConstantPool> pool_;
  std::unique_ptr<Machine> machine_;
  std::vector<reg::Gp> pointers_;  // of rows; invalid: in the call
  bool reduces_ = false;
  bool overflow_ = false;  // of the frame
};

}  // namespace

Code emit(const KernelDescription& kernel, Isa isa, std::string* log) {
  return Emitter(kernel, isa, log).emit();
}

std::string why_not(const KernelDescription& kernel, Isa isa) {
  for (const Node& node : kernel.form.nodes()) {
    std::string reason;
    if (node.is_element()) {
      reason = why_not_element(kernel.operands[node.bits].type, node.type, isa);
    } else {
      reason = why_not_operation(node, isa);
    }
    if (!reason.empty()) return reason;
  }
  for (const Phase& phase : kernel.phases) {
    if (phase.reductions.size() > kMaxReductions) return "a phase has too many reductions";
    for (const Store& store : phase.stores) {
      std::string reason = why_not_element(kernel.operands[static_cast<size_t>(store.operand)].type,
                                           store.type, isa);
      if (!reason.empty()) return reason;
    }
  }
  return "";
}

}  // namespace lathe::codegen::x86
