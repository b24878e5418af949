// SPDX-License-Identifier: MIT
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/log.h"
#include "llm/model/hub_cache.h"
#include "targets/gpu_library.h"

namespace lathe::cli {

struct CommandLine::Impl {
  CLI::App app;
  // Names and whether their values are present.
  std::vector<std::pair<std::string, std::function<bool()>>> required;
  std::vector<const bool*> hidden;
  std::vector<std::function<void()>> conversions;
  // Unconverted option values; a deque keeps their addresses stable.
  std::deque<std::string> pending;
};

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == text.size()) return parts;
    begin = end + 1;
  }
}

// "--no-json" is part of "--[no-]json".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional || option->get_fnames().empty()) {
      return Formatter::make_option_name(option, is_positional);
    }
    std::string names;
    for (const std::string& name : option->get_snames()) names += fmt::format("-{},", name);
    return fmt::format("{}--[no-]{}", names, option->get_lnames().front());
  }
};

std::string with_negation(std::string_view flag) {
  const std::string_view name = flag.substr(flag.find("--") + 2);
  return fmt::format("{},!--no-{}", flag, name.substr(0, name.find(',')));
}

// Reports an unexpected argument and the nearest known flag.
[[noreturn]] void fail_unexpected(const CLI::App& app, std::string_view command,
                                  const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const bool is_flag = argument.starts_with("-");
  const std::string name = argument.substr(0, argument.find('='));
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  Error error(
      ErrorKind::invalid_argument,
      fmt::format("lathe {}: {} '{}'{}", command, is_flag ? "unknown flag" : "unexpected argument",
                  escape(is_flag ? name : argument),
                  is_flag ? did_you_mean(name, candidates) : ""));
  error.note(fmt::format("see: lathe {} --help", command));
  throw error;
}

}  // namespace

CommandLine::CommandLine(const Command& command, std::vector<std::string> arguments,
                         Options options, Output& out)
    : command_(command),
      arguments_(std::move(arguments)),
      options_(std::move(options)),
      out_(out),
      impl_(std::make_unique<Impl>()) {
  CLI::App& app = impl_->app;
  app.name(fmt::format("lathe {}", command.name));
  app.description(std::string(command.doc));
  app.footer(fmt::format("Example:\n  {}", command.example));
  app.allow_extras();
  app.set_help_flag("--help,-h", "Prints this help.");
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(34);
  this->options({"log"});
}

CommandLine::~CommandLine() = default;

void CommandLine::positional(std::string_view name, std::string& value, std::string_view doc,
                             bool is_optional) {
  impl_->app.add_option(std::string(name), value, std::string(doc))->type_name("");
  if (!is_optional) impl_->required.emplace_back(name, [&value] { return !value.empty(); });
}

void CommandLine::positionals(std::string_view name, std::vector<std::string>& values,
                              std::string_view doc) {
  impl_->app.add_option(std::string(name), values, std::string(doc))->type_name("...");
  impl_->required.emplace_back(name, [&values] { return !values.empty(); });
}

void CommandLine::model(std::string_view name, std::string& value, std::string_view doc,
                        bool is_optional) {
  positional(name, value, doc, is_optional);
  impl_->conversions.push_back([&value] { value = llm::resolve_model(value); });
}

void CommandLine::text(std::string_view flag, std::string& value, std::string_view value_name,
                       std::string_view doc) {
  impl_->app.add_option(std::string(flag), value, std::string(doc))
      ->type_name(std::string(value_name));
}

void CommandLine::texts(std::string_view flag, std::vector<std::string>& values,
                        std::string_view value_name, std::string_view doc) {
  impl_->app.add_option(std::string(flag), values, std::string(doc))
      ->type_name(std::string(value_name))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void CommandLine::flag(std::string_view flag, bool& value, std::string_view doc) {
  impl_->app.add_flag(with_negation(flag), value, std::string(doc));
}

void CommandLine::hidden_flag(std::string_view flag, bool& value) {
  impl_->app.add_flag(std::string(flag), value, "")->group("");
  impl_->hidden.push_back(&value);
}

void CommandLine::integer(std::string_view flag, int64_t& value, int64_t min, int64_t max,
                          std::string_view doc) {
  std::string& pending = impl_->pending.emplace_back();
  CLI::Option* option = impl_->app.add_option(std::string(flag), pending, std::string(doc));
  option->type_name("N")->default_str(fmt::format("{}", value));
  impl_->conversions.push_back([=, &value, &pending] {
    if (option->count() > 0) value = parse_integer(pending, min, max, option->get_name());
  });
}

void CommandLine::numbers(std::string_view flag, std::vector<double>& values,
                          std::string_view doc) {
  std::string& pending = impl_->pending.emplace_back();
  CLI::Option* option = impl_->app.add_option(std::string(flag), pending, std::string(doc));
  option->type_name("X[,X...]");
  impl_->conversions.push_back([=, &values, &pending] {
    if (option->count() == 0) return;
    values.clear();
    for (const std::string& part : split(pending, ',')) {
      values.push_back(parse_number(part, -INFINITY, INFINITY, option->get_name()));
    }
  });
}

void CommandLine::choice(std::string_view flag, std::string& value,
                         std::vector<std::string_view> choices, std::string_view doc) {
  CLI::Option* option = impl_->app.add_option(std::string(flag), value, std::string(doc));
  option->type_name(fmt::format("{}", fmt::join(choices, "|")));
  impl_->conversions.push_back([=, &value] {
    if (option->count() == 0) return;
    check(std::find(choices.begin(), choices.end(), value) != choices.end(),
          ErrorKind::invalid_argument, "{} is '{}'{}, expected one of: {}", option->get_name(),
          escape(value), did_you_mean(value, choices), fmt::join(choices, ", "));
  });
}

void CommandLine::options(std::initializer_list<std::string_view> names) {
  const auto takes = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const OptionInfo& info : option_table()) {
    // Options of GPUs belong to the target.
    const bool of_gpus = info.name == "gpu-libraries" || info.name == "device-memory-limit";
    if (!takes(of_gpus ? "target" : info.name)) continue;
    const std::string flag = flag_name(info);
    if (info.type == OptionType::boolean) {
      impl_->app.add_flag_function(
          with_negation(flag),
          [this, &info, flag](int64_t count) {
            options_.set(info.name, count > 0 ? "true" : "false", flag);
          },
          std::string(info.doc));
      continue;
    }
    std::string& pending = impl_->pending.emplace_back();
    CLI::Option* option = impl_->app.add_option(flag, pending, std::string(info.doc));
    option->type_name(info.type == OptionType::text ? "NAME" : "N");
    option->default_str(options_.text(info.name));
    impl_->conversions.push_back([this, &info, &pending, option, flag] {
      if (option->count() > 0) options_.set(info.name, pending, flag);
    });
  }
}

bool CommandLine::parse() {
  CLI::App& app = impl_->app;
  std::vector<std::string> reversed(arguments_.rbegin(), arguments_.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    out_.write(app.help());
    return false;
  } catch (const CLI::ArgumentMismatch& problem) {
    const std::string text = problem.what();  // "--top: 1 required N missing"
    Error error(ErrorKind::invalid_argument,
                fmt::format("lathe {}: {} requires a value", command_.name,
                            escape(text.substr(0, text.find(':')))));
    error.note(fmt::format("see: lathe {} --help", command_.name));
    throw error;
  } catch (const CLI::ParseError& problem) {
    Error error(ErrorKind::invalid_argument,
                fmt::format("lathe {}: {}", command_.name, escape(problem.what(), 1000)));
    error.note(fmt::format("see: lathe {} --help", command_.name));
    throw error;
  }
  const std::vector<std::string> extras = app.remaining();
  // The value of an unknown flag is an extra too, so look for the flag first.
  for (const std::string& extra : extras) {
    if (extra.starts_with("-")) fail_unexpected(app, command_.name, extra);
  }
  if (!extras.empty()) fail_unexpected(app, command_.name, extras.front());
  const bool is_hidden = std::any_of(impl_->hidden.begin(), impl_->hidden.end(),
                                     [](const bool* value) { return *value; });
  for (const auto& [name, is_present] : impl_->required) {
    if (is_present() || is_hidden) continue;
    Error error(ErrorKind::invalid_argument,
                fmt::format("lathe {}: the argument {} is missing", command_.name, name));
    error.note(fmt::format("see: lathe {} --help", command_.name));
    throw error;
  }
  for (const auto& convert : impl_->conversions) convert();
  set_log_level(static_cast<int>(options_.integer("log")));
  const std::string& libraries = options_.text("gpu-libraries");
  set_gpu_settings({.libraries = libraries == "auto" ? "" : libraries,
                    .memory_limit = options_.integer("device-memory-limit")});
  return true;
}

bool CommandLine::has(std::string_view flag) const {
  const CLI::Option* option = impl_->app.get_option_no_throw(std::string(flag));
  return option != nullptr && option->count() > 0;
}

void CommandLine::refuse(std::initializer_list<std::string_view> flags,
                         std::string_view subject) const {
  for (const std::string_view flag : flags) {
    if (!has(flag)) continue;
    Error error(ErrorKind::invalid_argument,
                fmt::format("lathe {}: {} does not apply to {}", command_.name, flag, subject));
    error.note(fmt::format("see: lathe {} --help", command_.name));
    throw error;
  }
}

}  // namespace lathe::cli
