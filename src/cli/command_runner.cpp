// SPDX-License-Identifier: MIT
#include "cli/command_runner.h"

#include <new>

#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "cli/command_line.h"
#include "targets/target.h"

namespace lathe::cli {
namespace {

std::string usage() {
  std::string text =
      "Lathe compiles trained networks and runs them.\n\n"
      "usage: lathe COMMAND [ARGUMENTS]\n\ncommands:\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<10} {}\n", command.name, command.doc);
  }
  return text +
         "\nlathe COMMAND --help   prints the flags of a command and an example\n"
         "lathe --version        prints the version\n";
}

const Command& find_command(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  fail(ErrorKind::invalid_argument, "unknown {} '{}'{}; commands: {}",
       name.starts_with("-") ? "flag" : "command", escape(name), did_you_mean(name, names),
       fmt::join(names, ", "));
}

int run_command(std::vector<std::string> arguments, Output& out) {
  if (arguments.empty()) {
    out.write(usage());
    out.flush();
    fail(ErrorKind::invalid_argument, "the command is missing; see: {}", "lathe --help");
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    out.write(usage());
    return 0;
  }
  if (arguments[0] == "--version") {
    out.write(fmt::format("lathe {}\n", LATHE_VERSION));
    return 0;
  }
  check_host();
  const Command& command = find_command(arguments[0]);
  std::vector<std::string> warnings;
  const Options options = Options::from_environment(warnings);
  for (const std::string& warning : warnings) log_warning(warning);
  arguments.erase(arguments.begin());
  CommandLine line(command, std::move(arguments), options, out);
  return command.run(line);
}

int report(const Error& error) {
  write_error_text(fmt::format("error: {}\n", error.what()));
  return error_kind_info(error.kind()).exit_code;
}

}  // namespace

int run_arguments(std::vector<std::string> arguments) {
  try {
    Output out;
    const int code = run_command(std::move(arguments), out);
    out.flush();
    return code;
  } catch (const ClosedPipe&) {
    return 0;
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::out_of_memory, "out of memory"));
  } catch (const std::exception& problem) {
    return report(
        Error(ErrorKind::internal, fmt::format("unexpected exception: {}", problem.what())));
  }
}

}  // namespace lathe::cli
