// SPDX-License-Identifier: MIT
// Interrupts of the whole process.
#pragma once

namespace lathe {

// On the first SIGINT or SIGTERM calls `on_first`, which must be safe in a signal handler; on the
// second, or if the process still lives 2.5 seconds later, ends it with exit code 130. A write to a
// closed pipe becomes an error of that write.
void watch_interrupts(void (*on_first)());

// For programs that go on after an interrupt: the next one is a first one again.
void forget_interrupt();

// While a program waits for a person, an interrupt ends it at once, with exit code 130.
void end_at_interrupt(bool at_once);

// Ends the process at once, without destructors; what was written stays written.
[[noreturn]] void exit_now(int code);

}  // namespace lathe
