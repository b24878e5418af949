// SPDX-License-Identifier: MIT
#include "base/os_signal.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace lathe {
namespace {

constexpr int kInterruptedCode = 130;
constexpr int kGraceMicroseconds = 500'000;  // in addition to 2 seconds

void (*first_action)() = nullptr;
std::atomic<bool> interrupted{false};
std::atomic<bool> ends_at_once{false};

void end_process(int) {
  constexpr char kMessage[] = "error: interrupted: exiting with work unfinished\n";
  const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  static_cast<void>(written);
  ::_exit(kInterruptedCode);
}

void interrupt(int number) {
  if (ends_at_once) ::_exit(kInterruptedCode);
  const int before = errno;
  if (interrupted.exchange(true)) end_process(number);
  first_action();
  itimerval timer{};
  timer.it_value.tv_sec = 2;
  timer.it_value.tv_usec = kGraceMicroseconds;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  errno = before;
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

constexpr std::array<int, 4> kWatched{SIGINT, SIGTERM, SIGALRM, SIGPIPE};

}  // namespace

struct SavedSignals::Handlers {
  std::array<struct sigaction, kWatched.size()> actions{};
};

SavedSignals::SavedSignals() : handlers_(std::make_unique<Handlers>()) {
  for (size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i], nullptr, &handlers_->actions[i]);
  }
}

SavedSignals::~SavedSignals() {
  for (size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i], &handlers_->actions[i], nullptr);
  }
}

void watch_interrupts(void (*on_first)()) {
  first_action = on_first;
  handle(SIGINT, interrupt);
  handle(SIGTERM, interrupt);
  handle(SIGALRM, end_process);
  handle(SIGPIPE, SIG_IGN);
}

void reset_interrupt() {
  const itimerval off{};
  ::setitimer(ITIMER_REAL, &off, nullptr);
  interrupted = false;
}

void end_at_interrupt(bool at_once) { ends_at_once = at_once; }

void exit_now(int code) { ::_exit(code); }

}  // namespace lathe
