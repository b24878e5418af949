// SPDX-License-Identifier: MIT
#include "bench/kernels/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace lathe::bench {

Process::Process(const std::vector<std::string>& arguments,
                 const std::vector<std::pair<std::string, std::string>>& variables)
    : name_(arguments.front()) {
  std::signal(SIGPIPE, SIG_IGN);
  int to[2];
  int from[2];
  check(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, ErrorKind::io,
        "cannot create pipes for '{}'", escape(name_));
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  process_ = fork();
  check(process_ >= 0, ErrorKind::io, "cannot start '{}'", escape(name_));
  if (process_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  input_ = to[1];
  output_ = from[0];
  greeting_ = read_line();
}

Process::~Process() {
  close(input_);
  close(output_);
  int status = 0;
  waitpid(process_, &status, 0);
}

std::string Process::read_line() {
  size_t end = 0;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    char bytes[4096];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    check(count > 0, ErrorKind::io, "'{}' has ended", escape(name_));
    buffer_.append(bytes, static_cast<size_t>(count));
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string Process::request(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t written = write(input_, text.data(), text.size());
  check(written == static_cast<ssize_t>(text.size()), ErrorKind::io, "'{}' has ended",
        escape(name_));
  return read_line();
}

bool Process::is_running() const {
  std::error_code gone;
  const std::string tasks = "/proc/" + std::to_string(process_) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream file(task.path() / "stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = text.rfind(')');  // NUMBER (NAME) STATE ...
    if (name_end != std::string::npos && text.substr(name_end + 1, 2) == " R") return true;
  }
  return false;
}

}  // namespace lathe::bench
