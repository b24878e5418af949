// SPDX-License-Identifier: MIT
// Interrupts of the process.
#pragma once

#include <memory>

namespace lathe {

// Restores the handlers of the signals that watch_interrupts() takes.
class SavedSignals {
 public:
  SavedSignals();
  ~SavedSignals();
  SavedSignals(const SavedSignals&) = delete;
  SavedSignals& operator=(const SavedSignals&) = delete;

 private:
  struct Handlers;
  std::unique_ptr<Handlers> handlers_;
};

// The first SIGINT or SIGTERM calls `on_first`, which must be async-signal-safe. A second one, or a
// process that still runs 2.5 seconds later, exits with code 130. SIGPIPE is ignored.
void watch_interrupts(void (*on_first)());

// Makes the next interrupt a first one again, for programs that continue after an interrupt.
void reset_interrupt();

// `at_once`: an interrupt exits immediately with code 130. For programs that wait for user input.
void end_at_interrupt(bool at_once);

// Exits immediately, without destructors.
[[noreturn]] void exit_now(int code);

}  // namespace lathe
