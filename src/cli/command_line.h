// SPDX-License-Identifier: MIT
// The flags of one command, their help and their errors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/output.h"

namespace lathe::cli {

class CommandLine;

struct Command {
  std::string_view name;
  std::string_view doc;                     // one sentence
  std::string_view example;                 // lines of the shell
  int (*run)(CommandLine& line) = nullptr;  // declares its flags, parses, acts; the exit code
};
std::span<const Command> commands();

// Values are converted by parse(), so that every message names its flag.
class CommandLine {
 public:
  CommandLine(const Command& command, std::vector<std::string> arguments, Options options,
              Output& out);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `name` is what help calls it: "MODEL". Without it parse() fails, unless it may be left out.
  void positional(std::string_view name, std::string& value, std::string_view doc,
                  bool may_be_absent = false);
  void text(std::string_view flag, std::string& value, std::string_view value_name,
            std::string_view doc);
  void texts(std::string_view flag, std::vector<std::string>& values, std::string_view value_name,
             std::string_view doc);  // may be given several times
  void flag(std::string_view flag, bool& value, std::string_view doc);
  // Not listed by --help, and then no positional is demanded.
  void hidden_flag(std::string_view flag, bool& value);
  void integer(std::string_view flag, int64_t& value, int64_t min, int64_t max,
               std::string_view doc);
  void numbers(std::string_view flag, std::vector<double>& values, std::string_view doc);  // a,b,c
  void choice(std::string_view flag, std::string& value, std::vector<std::string_view> choices,
              std::string_view doc);
  // Flags of the options table, by name.
  void options(std::initializer_list<std::string_view> names);

  // False if help was asked for, which is then printed. InvalidArgument for anything unexpected.
  bool parse();

  const Options& options() const { return options_; }
  Output& out() const { return out_; }
  const Command& command() const { return command_; }

 private:
  struct Impl;
  const Command& command_;
  std::vector<std::string> arguments_;
  Options options_;
  Output& out_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::cli
