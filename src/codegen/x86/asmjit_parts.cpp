// SPDX-License-Identifier: MIT
// Parts of AsmJit that Lathe does without; the linker takes these instead of the library's.
// Debian's libasmjit.a has the first three in its only object that is not position-independent, the
// others in objects for another processor.
#include <asmjit/core.h>

#include <cstdlib>

// clang-format off
ASMJIT_BEGIN_NAMESPACE

namespace DebugUtils {
const char* errorAsString(Error /*error*/) noexcept { return "see asmjit/core/globals.h"; }
void debugOutput(const char* /*text*/) noexcept {}
void assertionFailed(const char* /*file*/, int /*line*/, const char* /*message*/) noexcept {
  std::abort();
}
}  // namespace DebugUtils

namespace a64::InstInternal {
Error instIdToString(Arch /*arch*/, InstId /*id*/, String& /*to*/) noexcept {
  return kErrorInvalidArch;
}
InstId stringToInstId(Arch /*arch*/, const char* /*text*/, size_t /*size*/) noexcept { return 0; }
Error validate(Arch /*arch*/, const BaseInst& /*inst*/, const Operand_* /*operands*/,
               size_t /*count*/, ValidationFlags /*flags*/) noexcept {
  return kErrorInvalidArch;
}
Error queryRWInfo(Arch /*arch*/, const BaseInst& /*inst*/, const Operand_* /*operands*/,
                  size_t /*count*/, InstRWInfo* /*out*/) noexcept {
  return kErrorInvalidArch;
}
Error queryFeatures(Arch /*arch*/, const BaseInst& /*inst*/, const Operand_* /*operands*/,
                    size_t /*count*/, CpuFeatures* /*out*/) noexcept {
  return kErrorInvalidArch;
}
}  // namespace a64::InstInternal

ASMJIT_END_NAMESPACE
// clang-format on
