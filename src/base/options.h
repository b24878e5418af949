// SPDX-License-Identifier: MIT
// The options table: the source of flags, LATHE_* variables and docs/options.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

enum class OptionType : uint8_t { boolean, integer, number, bytes, text };
std::string_view to_string(OptionType type);

struct OptionInfo {
  std::string_view name;  // "memory-limit": flag --memory-limit, variable LATHE_MEMORY_LIMIT
  OptionType type;
  std::string_view fallback;  // the default as text
  std::string_view doc;       // one sentence
  double min = 0;
  double max = 0;
};

std::span<const OptionInfo> option_table();
std::string flag_name(const OptionInfo& option);      // "--memory-limit"
std::string variable_name(const OptionInfo& option);  // "LATHE_MEMORY_LIMIT"
std::string options_markdown();                       // docs/options.md

// The value and the origin of every option.
class Options {
 public:
  Options();  // defaults
  // Defaults, overridden by LATHE_* variables. InvalidArgument with the variable's name if a value
  // is invalid; an unknown LATHE_* variable adds a line to `warnings`.
  static Options from_environment(std::vector<std::string>& warnings);
  static Options from_variables(std::span<const std::pair<std::string, std::string>> variables,
                                std::vector<std::string>& warnings);

  // InvalidArgument naming `origin` if `text` is not a value of the option.
  void set(std::string_view name, std::string_view text, std::string_view origin);

  bool boolean(std::string_view name) const { return entry(name).number != 0; }
  int64_t integer(std::string_view name) const { return entry(name).integer; }  // also bytes
  double number(std::string_view name) const { return entry(name).number; }
  const std::string& text(std::string_view name) const { return entry(name).text; }
  const std::string& origin(std::string_view name) const { return entry(name).origin; }

 private:
  struct Entry {
    std::string text;
    std::string origin;  // "--threads", "LATHE_THREADS"; empty: the default
    double number = 0;
    int64_t integer = 0;
  };
  const Entry& entry(std::string_view name) const;
  std::vector<Entry> entries_;
};

// The number in the text of a flag or variable. InvalidArgument naming `origin` if it is not one.
int64_t parse_integer(std::string_view text, int64_t min, int64_t max, std::string_view origin);
double parse_number(std::string_view text, double min, double max, std::string_view origin);
// Bytes: "4096", "64K", "1.5G" (powers of 1024).
int64_t parse_bytes(std::string_view text, std::string_view origin);

}  // namespace lathe
