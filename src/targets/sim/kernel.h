// SPDX-License-Identifier: MIT
// Runs a kernel of the host on the simulated device.
#pragma once

#include "plan/kernel.h"
#include "targets/sim/device.h"

namespace lathe::sim {

// Enqueues `kernel`. When it runs, shapes come from the run block, and every address is checked.
// Operands of `on_host` are read when it is enqueued.
std::unique_ptr<const Kernel> on_stream(const SimDevice& device,
                                        std::unique_ptr<const Kernel> kernel,
                                        std::vector<int> on_host = {});

}  // namespace lathe::sim
