// SPDX-License-Identifier: MIT
// Processor features that require permission from the operating system.
#pragma once

namespace lathe {

// Requests the AMX tile registers for all threads of this process; false if they are unavailable.
// May be called again.
bool request_tile_registers();

}  // namespace lathe
