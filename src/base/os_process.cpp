// SPDX-License-Identifier: MIT
#include "base/os_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/error.h"
#include "base/file_map.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kNotFound = 127;

class Pipe {
 public:
  Pipe() {
    check(::pipe2(ends_.data(), O_CLOEXEC) == 0, ErrorKind::io, "cannot create a pipe: {}",
          std::generic_category().message(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_end(size_t i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Writes the child's input and reads its output until both end or the time limit.
void exchange(Pipe& to, Pipe& from, const ProcessOptions& options, ProcessResult& result) {
  const Clock::time_point begin = Clock::now();
  std::string_view left = options.input;
  if (left.empty()) to.close_end(1);
  ::fcntl(to.writer(), F_SETFL, O_NONBLOCK);
  std::array<char, 1 << 16> buffer{};
  while (true) {
    std::array<pollfd, 2> watched{{{from.reader(), POLLIN, 0}, {to.writer(), POLLOUT, 0}}};
    int wait_ms = -1;
    if (options.seconds > 0) {
      const double over =
          options.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
      if (over <= 0) {
        result.timed_out = true;
        return;
      }
      wait_ms = static_cast<int>(std::min(over, 3600.0) * 1000) + 1;
    }
    const int ready = ::poll(watched.data(), to.writer() >= 0 ? 2 : 1, wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    if (to.writer() >= 0 && watched[1].revents != 0) {
      const ssize_t count = ::write(to.writer(), left.data(), left.size());
      if (count > 0) left.remove_prefix(static_cast<size_t>(count));
      if (left.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) to.close_end(1);
    }
    if (watched[0].revents != 0) {
      const ssize_t count = ::read(from.reader(), buffer.data(), buffer.size());
      if (count == 0 || (count < 0 && errno != EINTR)) return;
      if (count > 0 && result.output.size() < options.output_limit) {
        result.output.append(buffer.data(), static_cast<size_t>(count));
      }
    }
  }
}

void finish(pid_t child, ProcessResult& result) {
  if (result.timed_out) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
}

pid_t start_child() {
  const pid_t child = ::fork();
  check(child >= 0, ErrorKind::io, "cannot start a process: {}",
        std::generic_category().message(errno));
  return child;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  check(!arguments.empty(), ErrorKind::internal, "expected a program to run, got {} arguments",
        arguments.size());
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Pipe to;
  Pipe from;
  ProcessResult result;
  const pid_t child = start_child();
  if (child == 0) {
    ::dup2(to.reader(), STDIN_FILENO);
    ::dup2(from.writer(), STDOUT_FILENO);
    ::signal(SIGPIPE, SIG_DFL);
    ::execvp(argv[0], argv.data());
    ::_exit(kNotFound);
  }
  to.close_end(0);
  from.close_end(1);
  exchange(to, from, options, result);
  finish(child, result);
  result.started = result.code != kNotFound;
  return result;
}

int code_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

std::string own_program() { return real_path("/proc/self/exe"); }

}  // namespace lathe
