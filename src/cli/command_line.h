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
  std::string_view example;                 // shell command
  int (*run)(CommandLine& line) = nullptr;  // declares flags, parses, acts; returns the exit code
};
std::span<const Command> commands();

// Declares flags, then parses them. parse() converts the values, so that errors name their flag.
class CommandLine {
 public:
  CommandLine(const Command& command, std::vector<std::string> arguments, Options options,
              Output& out);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `name` appears in help: "MODEL". parse() fails without a value, unless it is optional.
  void positional(std::string_view name, std::string& value, std::string_view doc,
                  bool is_optional = false);
  // Takes one or more values.
  void positionals(std::string_view name, std::vector<std::string>& values, std::string_view doc);
  // A value that is a model: parse() finds that of a Hugging Face cache, "org/name:Q4_K_M".
  void model(std::string_view name, std::string& value, std::string_view doc,
             bool is_optional = false);
  void text(std::string_view flag, std::string& value, std::string_view value_name,
            std::string_view doc);
  void texts(std::string_view flag, std::vector<std::string>& values, std::string_view value_name,
             std::string_view doc);  // repeatable
  // Also declares --no-FLAG; the last of both wins.
  void flag(std::string_view flag, bool& value, std::string_view doc);
  // Hidden from --help; makes positionals optional.
  void hidden_flag(std::string_view flag, bool& value);
  void integer(std::string_view flag, int64_t& value, int64_t min, int64_t max,
               std::string_view doc);
  void numbers(std::string_view flag, std::vector<double>& values, std::string_view doc);  // a,b,c
  void choice(std::string_view flag, std::string& value, std::vector<std::string_view> choices,
              std::string_view doc);
  // Flags of the options table, by name.
  void options(std::initializer_list<std::string_view> names);

  // False after printing the requested help. InvalidArgument for an unexpected argument.
  bool parse();

  // After parse(): whether the command line has the flag, "--json".
  bool has(std::string_view flag) const;
  // After parse(): InvalidArgument if the command line has one of the flags. `subject` is what they
  // do not apply to: "the model folder 'x'".
  void refuse(std::initializer_list<std::string_view> flags, std::string_view subject) const;

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
