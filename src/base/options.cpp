// SPDX-License-Identifier: MIT
#include "base/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/os_environment.h"

namespace lathe {
namespace {

constexpr std::string_view kPrefix = "LATHE_";
constexpr double kMaxSeconds = 1e9;

constexpr std::array<OptionInfo, 11> kOptions{{
    {"log", OptionType::integer, "0",
     "What to tell on standard error, each level a superset: 1 what ran where, 2 kernel times, "
     "3 passes, 4 generated code, 5 programs after each pass, 6 rules.",
     0, 6},
    {"target", OptionType::text, "ref", "Where the program runs."},
    {"compute", OptionType::text, "as_model",
     "What the activations of products with constant weights compute in: as_model, int8, bf16 or "
     "f32."},
    {"cpu-isa", OptionType::text, "auto",
     "The best instruction set that kernels may use: avx2, avx2_vnni, avx512, avx512_vnni or amx."},
    {"threads", OptionType::integer, "0", "Threads that compute; 0 takes one per available core.",
     0, 1024},
    {"pin-threads", OptionType::boolean, "false", "Keeps each thread but the first on one core."},
    {"memory-limit", OptionType::bytes, "0",
     "Most memory for scratch, outputs and states, as in 512M or 4G; 0 sets no limit."},
    {"timeout", OptionType::number, "0",
     "Seconds after which a command that runs a program gives up; 0 waits for ever.", 0,
     kMaxSeconds},
    {"seed", OptionType::integer, "0",
     "Where the random numbers of inputs that are not given start.", 0, 9e18},
    {"round-trip", OptionType::boolean, "false",
     "Prints the program after every pass, reads it back and demands the same text."},
    {"verify-each-pass", OptionType::boolean, "false",
     "Verifies the program after every pass; between stages that happens in any case."},
}};

size_t index_of(std::string_view name) {
  for (size_t i = 0; i < kOptions.size(); ++i) {
    if (kOptions[i].name == name) return i;
  }
  fail(ErrorKind::internal, "there is no option '{}'", name);
}

// What a value may be: "a number from 0 to 6".
std::string number_text(double min, double max) {
  if (std::isinf(min) && std::isinf(max)) return "a number";
  return fmt::format("a number from {} to {}", min, max);
}

template <class T>
bool parses_as(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && at == end;
}

std::optional<bool> boolean_from(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

bool parse_boolean(std::string_view text, std::string_view origin) {
  const std::optional<bool> value = boolean_from(text);
  check(value.has_value(), ErrorKind::invalid_argument, "{} is '{}', expected true or false",
        origin, escape(text));
  return *value;
}

}  // namespace

std::string_view to_string(OptionType type) {
  constexpr std::array<std::string_view, 5> kNames{"true or false", "whole number", "number",
                                                   "bytes", "text"};
  return kNames[static_cast<size_t>(type)];
}

std::span<const OptionInfo> option_table() { return kOptions; }

std::string flag_name(const OptionInfo& option) { return "--" + std::string(option.name); }

std::string variable_name(const OptionInfo& option) {
  std::string name(kPrefix);
  for (const char c : option.name) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::string options_markdown() {
  std::string out =
      "# Options\n\n"
      "Made by `lathe doctor --options-markdown`. A flag wins over its variable. Flags are taken "
      "by the\n"
      "commands that need them; variables hold for all of them.\n\n"
      "| flag | variable | type | default | |\n|---|---|---|---|---|\n";
  for (const OptionInfo& option : kOptions) {
    out += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", flag_name(option), variable_name(option),
                       to_string(option.type), option.fallback, option.doc);
  }
  return out;
}

Options::Options() : entries_(kOptions.size()) {
  for (const OptionInfo& option : kOptions) set(option.name, option.fallback, "");
}

Options Options::from_environment(std::vector<std::string>& warnings) {
  return from_variables(environment_variables(kPrefix), warnings);
}

Options Options::from_variables(std::span<const std::pair<std::string, std::string>> variables,
                                std::vector<std::string>& warnings) {
  Options options;
  std::vector<std::string> names;
  for (const OptionInfo& option : kOptions) names.push_back(variable_name(option));
  for (const auto& [name, value] : variables) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) {
      options.set(kOptions[static_cast<size_t>(found - names.begin())].name, value, name);
      continue;
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    warnings.push_back(
        fmt::format("unknown variable {}{} is ignored", escape(name), did_you_mean(name, known)));
  }
  return options;
}

const Options::Entry& Options::entry(std::string_view name) const {
  return entries_[index_of(name)];
}

void Options::set(std::string_view name, std::string_view text, std::string_view origin) {
  const size_t index = index_of(name);
  const OptionInfo& option = kOptions[index];
  Entry entry{std::string(text), std::string(origin)};
  switch (option.type) {
    case OptionType::boolean:
      entry.whole = parse_boolean(text, origin) ? 1 : 0;
      break;
    case OptionType::integer:
      entry.whole = parse_integer(text, static_cast<int64_t>(option.min),
                                  static_cast<int64_t>(option.max), origin);
      break;
    case OptionType::bytes:
      entry.whole = parse_bytes(text, origin);
      break;
    case OptionType::number:
      entry.number = parse_number(text, option.min, option.max, origin);
      break;
    case OptionType::text:
      check(!text.empty(), ErrorKind::invalid_argument, "{} is empty, expected a text", origin);
      break;
  }
  if (option.type != OptionType::number) entry.number = static_cast<double>(entry.whole);
  entries_[index] = std::move(entry);
}

int64_t parse_integer(std::string_view text, int64_t min, int64_t max, std::string_view origin) {
  int64_t value = 0;
  check(parses_as(text, value) && value >= min && value <= max, ErrorKind::invalid_argument,
        "{} is '{}', expected a whole number from {} to {}", origin, escape(text), min, max);
  return value;
}

double parse_number(std::string_view text, double min, double max, std::string_view origin) {
  double value = 0;
  check(parses_as(text, value) && value >= min && value <= max, ErrorKind::invalid_argument,
        "{} is '{}', expected {}", origin, escape(text), number_text(min, max));
  return value;
}

int64_t parse_bytes(std::string_view text, std::string_view origin) {
  constexpr std::string_view kUnits = "KMGT";
  std::string_view digits = text;
  double factor = 1;
  if (const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
      unit != std::string_view::npos) {
    factor = std::ldexp(1.0, 10 * (static_cast<int>(unit) + 1));
    digits.remove_suffix(1);
  }
  double value = 0;
  check(parses_as(digits, value) && value >= 0 && value * factor < 9e18,
        ErrorKind::invalid_argument, "{} is '{}', expected bytes such as 4096, 512M or 4G", origin,
        escape(text));
  return static_cast<int64_t>(value * factor);
}

}  // namespace lathe
