// SPDX-License-Identifier: MIT
#include "cli/verify_folders.h"

#include "base/error.h"
#include "cli/execution.h"
#include "cli/verify_report.h"
#include "runtime/conformance.h"

namespace lathe::cli {
namespace {

CheckStatus status_of(ConformanceStatus status) {
  switch (status) {
    case ConformanceStatus::passed:
      return CheckStatus::passed;
    case ConformanceStatus::failed:
      return CheckStatus::failed;
    case ConformanceStatus::unsupported:
      break;
  }
  return CheckStatus::unsupported;
}

std::string report_lines(const Report& report) {
  std::string out;
  for (const Check& check : report.checks) {
    if (check.status == CheckStatus::passed) continue;
    out +=
        fmt::format("  {:<11} {}: {}\n", to_string(check.status), escape(check.name), check.detail);
  }
  return out + fmt::format("{} passed, {} failed, {} unsupported\n",
                           report.count(CheckStatus::passed), report.count(CheckStatus::failed),
                           report.count(CheckStatus::unsupported));
}

}  // namespace

int verify_folders(const std::string& root, bool json, CommandLine& line) {
  ConformanceOptions options;
  options.compile = compile_options(line.options());
  options.session.memory_limit = line.options().integer("memory-limit");
  options.run.cancel = &interrupts();
  options.run.deadline = deadline_of(line.options());
  ThreadPool pool(static_cast<int>(line.options().integer("threads")));
  options.session.pool = &pool;
  const std::vector<std::string> folders = find_model_folders(root);
  check(!folders.empty(), ErrorKind::invalid_argument,
        "'{}' holds no folder with a model and a test_data_set_0", escape(root));
  Report report;
  report.model = root;
  for (const std::string& folder : folders) {
    ConformanceResult result = run_model_folder(folder, options);
    const std::string name = folder == root ? folder : folder.substr(root.size() + 1);
    report.checks.push_back({name, status_of(result.status), std::move(result.detail), {}});
  }
  line.out().write(json ? report_json(report) : report_lines(report));
  return report.count(CheckStatus::failed) == 0 ? 0 : 1;
}

}  // namespace lathe::cli
