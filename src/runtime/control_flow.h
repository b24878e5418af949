// SPDX-License-Identifier: MIT
// Launches that run bodies: if, loop, scan.
#pragma once

#include "runtime/frame.h"

namespace lathe {

void run_if(Frame& frame, const Launch& launch);
void run_loop(Frame& frame, const Launch& launch);
void run_scan(Frame& frame, const Launch& launch);
void run_rank_specialised(Frame& frame, const Launch& launch);

}  // namespace lathe
