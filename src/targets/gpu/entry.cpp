// SPDX-License-Identifier: MIT
#include "targets/gpu/code/code_store.h"
#include "targets/gpu/kernel.h"
#include "targets/gpu/report.h"
#include "targets/gpu/target.h"
#include "targets/gpu_library.h"

namespace lathe::gpu {

const GpuLibrary& linked_library();
const GpuLibrary& linked_library() {
  static constexpr GpuLibrary kLibrary{
      open_target,  [](const Op& op) { return find_entry(op) != nullptr; },
      set_settings, report,
      counts,       CodeStore::stop_all};
  return kLibrary;
}

}  // namespace lathe::gpu
