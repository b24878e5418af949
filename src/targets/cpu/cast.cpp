// SPDX-License-Identifier: MIT
// cast between types of whole bytes, in the result's memory order, in parallel.
#include <array>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "targets/cpu/generated_elementwise.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements

class Cast final : public Kernel {
 public:
  Cast(const Instruction& instruction, Isa isa)
      : ops_(vector_ops(isa)), saturate_(attribute<bool>(instruction, "saturate")) {
    const std::array<const Value*, 1> operands{instruction.operands()[0]};
    const std::array<const Instruction*, 1> alone{&instruction};
    generated_ = GeneratedElementwise::make(operands, alone, isa);
  }
  std::string_view name() const override { return "cpu.cast"; }
  std::string detail() const override { return generated_ != nullptr ? "generated" : ""; }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    const TensorView& y = *args.out[0];
    if (y.count() == 0) return;
    if (generated_ != nullptr && generated_->run(args.in, y, args.pool)) return;
    TensorView to = common_order(y);
    TensorView from = to;
    from.type = x.type;
    const bool reads_x = same_strides(x, to), writes_y = same_strides(y, to);
    const ScratchBlock copy_of_x(reads_x ? 0 : bytes_for(x.type, x.count()));
    const ScratchBlock copy_of_y(writes_y ? 0 : bytes_for(y.type, y.count()));
    from.data = reads_x ? x.data : copy_of_x.data();
    if (!reads_x) copy_elements(x, from);
    to.data = writes_y ? y.data : copy_of_y.data();
    const int64_t read = info(x.type).bits / 8, written = info(y.type).bits / 8;
    parallel_for(args.pool, y.count(), kGrain, [&](int64_t begin, int64_t end) {
      convert_elements(ops_, to.type, static_cast<std::byte*>(to.data) + begin * written, from.type,
                       static_cast<const std::byte*>(from.data) + begin * read, end - begin,
                       {.saturate = saturate_});
    });
    if (!writes_y) copy_elements(to, y);
  }

 private:
  const VectorOps& ops_;
  bool saturate_;
  std::unique_ptr<const GeneratedElementwise> generated_;  // null: none
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  for (const ElementType type :
       {element_of(instruction, 0), instruction.result()->type().element}) {
    // f8e8m0 alone has a choice of roundings.
    if (type == ElementType::string || type == ElementType::f8e8m0 || info(type).bits < 8) {
      return fmt::format("a type is {}", to_string(type));
    }
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<Cast>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kCast{ops::cast, why_not, make};

}  // namespace lathe::cpu
