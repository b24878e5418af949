// SPDX-License-Identifier: MIT
// Facts about kernel sources that pack weights; a source without this interface packs none.
#pragma once

#include <string>

namespace lathe {

class Instruction;
class KernelSource;

class PackingSource {
 public:
  virtual ~PackingSource() = default;
  // True if select() uses a constant operand only as packed weights (Kernel::reads is false).
  virtual bool packs(const Instruction& instruction, int operand) const = 0;
  // True if select() packs a deferred constant from what it is made of: the plan does not evaluate
  // it, and select() receives null. So do all uses of its instruction, or none.
  virtual bool packs_source(const Instruction& instruction, int operand) const = 0;
  // What kernels and packings depend on beside the build: "avx512_vnni".
  virtual std::string machine() const = 0;
};

// PackingSource::machine() of a target, or "".
std::string machine_of(const KernelSource& source);

}  // namespace lathe
