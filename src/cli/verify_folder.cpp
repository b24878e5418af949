// SPDX-License-Identifier: MIT
#include "cli/verify_folder.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/os_process.h"
#include "cli/execution.h"
#include "runtime/conformance.h"

namespace lathe::cli {
namespace {

constexpr size_t kBatch = 32;        // cases per process
constexpr double kSecondsEach = 60;  // time limit of a batch per remaining case

CheckStatus status_from(std::string_view name) {
  for (const CheckStatus status :
       {CheckStatus::passed, CheckStatus::failed, CheckStatus::unsupported}) {
    if (to_string(status) == name) return status;
  }
  return CheckStatus::failed;
}

// The name of a case: its folder relative to the root.
std::string name_of(const std::string& folder, const std::string& root) {
  if (folder.size() <= root.size() + 1) return folder;
  return folder.substr(root.size() + (root.ends_with('/') ? 0 : 1));
}

class FolderVerification {
 public:
  FolderVerification(const std::string& root, const Options& options)
      : root_(root), options_(options), folders_(find_model_folders(root)) {
    check(!folders_.empty(), ErrorKind::invalid_argument,
          "'{}' has no model with a test_data_set_0", escape(root));
    results_.resize(folders_.size());
  }

  Report run() {
    int64_t threads = options_.integer("threads");
    if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    for (std::thread& worker : workers) worker.join();
    if (failure_) throw *failure_;
    check(!interrupts().cancelled(), ErrorKind::interrupted, "interrupted after {} of {} cases",
          done_, folders_.size());
    Report report;
    report.model = root_;
    report.is_tree = true;
    report.target = compile_options(options_).target->name();
    report.cases = static_cast<int64_t>(folders_.size());
    report.checks = std::move(results_);
    for (const Check& check : report.checks) {
      if (check.error_code == 0 || report.error_code != 0) continue;
      report.error_code = check.error_code;
      report.error = fmt::format("'{}': {}", escape(check.name), check.detail);
    }
    return report;
  }

 private:
  void work() {
    try {
      while (!interrupts().cancelled()) {
        size_t first = 0;
        {
          const std::lock_guard lock(mutex_);
          if (next_ == folders_.size() || failure_) return;
          first = next_;
          next_ = std::min(next_ + kBatch, folders_.size());
        }
        run_batch(first, std::min(first + kBatch, folders_.size()));
      }
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error;
    }
  }

  // If a process ends early, its current case fails and a new process continues after it.
  void run_batch(size_t first, size_t last) {
    while (first < last && !interrupts().cancelled()) {
      std::string input;
      for (size_t i = first; i < last; ++i) input += folders_[i] + "\n";
      const ProcessResult process = run_process(
          {own_program(), "verify", "--worker", "--target", options_.text("target"), "--compute",
           options_.text("compute"), "--memory-limit", options_.text("memory-limit"), "--threads",
           "1", options_.boolean("round-trip") ? "--round-trip" : "--no-round-trip",
           options_.boolean("verify-each-pass") ? "--verify-each-pass" : "--no-verify-each-pass"},
          {.input = input, .seconds = kSecondsEach * static_cast<double>(last - first)});
      const size_t before = first;
      first = take_lines(process.output, first, last);
      if (first == last) return;
      if (process.code == 0 && first > before) continue;
      results_[first] = {
          name_of(folders_[first], root_), CheckStatus::failed, end_of(process), {}, 0};
      count();
      ++first;
    }
  }

  static std::string end_of(const ProcessResult& process) {
    if (process.timed_out) return "its process timed out";
    if (process.signal != 0)
      return fmt::format("its process was ended by signal {}", process.signal);
    return fmt::format("its process ended with exit code {}", process.code);
  }

  // Reads printed results in the order of the folders; returns the index after the last one.
  size_t take_lines(std::string_view output, size_t first, size_t last) {
    while (first < last) {
      const size_t end = output.find('\n');
      if (end == std::string_view::npos) break;
      const auto json = nlohmann::json::parse(output.substr(0, end), nullptr, false);
      if (!json.is_object()) break;
      results_[first] = {name_of(folders_[first], root_),
                         status_from(json.value("status", std::string())),
                         json.value("detail", std::string()),
                         {},
                         json.value("error_code", 0)};
      count();
      output.remove_prefix(end + 1);
      ++first;
    }
    return first;
  }

  void count() {
    const std::lock_guard lock(mutex_);
    ++done_;
  }

  std::string root_;
  const Options& options_;
  std::vector<std::string> folders_;
  std::vector<Check> results_;
  std::mutex mutex_;
  size_t next_ = 0;
  size_t done_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Report verify_folder(const std::string& root, const Options& options) {
  static_cast<void>(compile_options(options));  // reports invalid options once, not per case
  return FolderVerification(root, options).run();
}

void run_verify_worker(const Options& options, Output& out) {
  ConformanceOptions conformance;
  conformance.compile = compile_options(options);
  conformance.session.memory_limit = options.integer("memory-limit");
  conformance.run.cancel = &interrupts();
  for (std::string folder; std::getline(std::cin, folder);) {
    const ConformanceResult result = run_model_folder(folder, conformance);
    const nlohmann::json json{{"status", to_string(result.status)},
                              {"detail", result.detail},
                              {"error_code", result.error_code}};
    out.write(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    out.flush();
  }
}

}  // namespace lathe::cli
