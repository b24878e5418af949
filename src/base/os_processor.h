// SPDX-License-Identifier: MIT
// What the operating system must allow before a processor's features may be used.
#pragma once

namespace lathe {

// Asks for the tile registers of AMX, for all threads of this process. False where the system has
// none to give; asking again costs one call.
bool request_tile_registers();

}  // namespace lathe
