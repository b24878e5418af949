// SPDX-License-Identifier: MIT
#include "llm/model/chat.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/os_signal.h"
#include "base/output.h"
#include "cli/commands.h"
#include "cli/language_model.h"

namespace lathe::cli {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr size_t kMaxLine = size_t{1} << 20;

// Counts since the conversation began.
struct Statistics {
  int64_t turns = 0;
  size_t answer_tokens = 0;
  double first_seconds = 0;   // of the last turn, until its first token
  double answer_seconds = 0;  // of the last turn, after its first token
};

class ChatLoop {
 public:
  ChatLoop(llm::Chat& chat, const Options& options, Output& out)
      : chat_(chat), options_(options), out_(out), is_interactive_(input_is_terminal()) {}

  // Returns at the end of the input or after /exit.
  void run() {
    if (is_interactive_)
      out_.write("Type a message. /help lists commands, Ctrl-C stops an answer.\n");
    std::string line;
    while (read_line(line)) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (line.starts_with("/")) {
        if (!execute(line)) return;
      } else {
        turn(line);
      }
    }
  }

 private:
  struct Command {
    std::string_view name;
    std::string_view doc;
    bool (ChatLoop::*act)(std::string_view rest);  // false: ends the conversation
  };
  static std::span<const Command> commands();

  bool read_line(std::string& line) {
    if (is_interactive_) out_.write("> ");
    out_.flush();
    end_at_interrupt(is_interactive_);
    line.clear();
    int c = std::getc(stdin);
    const bool has_line = c != EOF;
    for (; c != EOF && c != '\n'; c = std::getc(stdin)) {
      line += static_cast<char>(c);
      check(line.size() <= kMaxLine, ErrorKind::invalid_argument, "a message exceeds {} bytes",
            kMaxLine);
    }
    end_at_interrupt(false);
    if (!has_line && is_interactive_) out_.write("\n");
    return has_line;
  }

  bool execute(const std::string& line) {
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view name = std::string_view(line).substr(1, end - 1);
    const size_t rest = std::min(line.find_first_not_of(" \t", end), line.size());
    std::vector<std::string_view> names;
    for (const Command& command : commands()) {
      if (command.name == name) return (this->*command.act)(std::string_view(line).substr(rest));
      names.push_back(command.name);
    }
    out_.write(fmt::format("unknown command /{}{}; /help lists commands\n", escape(name, 40),
                           did_you_mean(name, names)));
    return true;
  }

  void turn(const std::string& text) {
    try {
      chat_.say(text);
      answer();
    } catch (const Error& error) {
      // An interactive conversation continues; a script ends with the error.
      const bool continues = is_interactive_ && (error.kind() == ErrorKind::invalid_argument ||
                                                 error.kind() == ErrorKind::interrupted);
      if (!continues) throw;
      out_.write(fmt::format("\n[{}]\n", error.message()));
    }
    interrupts().reset();
    reset_interrupt();
  }

  void answer() {
    const auto begin = Clock::now();
    const auto deadline = deadline_of(options_);
    size_t written = 0;
    Statistics& s = statistics_;
    s.first_seconds = s.answer_seconds = 0;
    ++s.turns;
    for (bool more = true; more;) {
      try {
        more = chat_.next(&interrupts(), deadline);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::interrupted || !interrupts().cancelled()) throw;
        out_.write(" [stopped]");
        more = false;
      }
      const double seconds = Seconds(Clock::now() - begin).count();
      if (s.first_seconds == 0) s.first_seconds = seconds;
      s.answer_seconds = seconds - s.first_seconds;
      out_.write(chat_.answer().substr(written));
      written = chat_.answer().size();
      out_.flush();
    }
    out_.write("\n");
    s.answer_tokens += chat_.turn().answer;
  }

  bool help(std::string_view) {
    for (const Command& command : commands()) {
      out_.write(fmt::format("/{:<14} {}\n", command.name, command.doc));
    }
    return true;
  }
  bool clear(std::string_view) {
    chat_.clear();
    statistics_ = {};
    return true;
  }
  bool set_system(std::string_view text) {
    chat_.set_system(std::string(text));
    return true;
  }
  bool show_statistics(std::string_view) {
    const llm::Chat::Turn turn = chat_.turn();
    const Statistics& s = statistics_;
    const auto rate = [](size_t count, double seconds) {
      return seconds > 0 ? static_cast<double>(count) / seconds : 0;
    };
    out_.write(fmt::format("turns {}, tokens held {}, tokens run {}\n", s.turns,
                           chat_.tokens().size(), chat_.tokens_run()));
    if (s.turns == 0) return true;
    out_.write(fmt::format(
        "last turn: {} tokens kept, {} prefilled in {:.2f} s ({:.1f} tokens/s), {} generated at "
        "{:.1f} tokens/s, ended by {}\n",
        turn.kept, turn.prompt - turn.kept, s.first_seconds,
        rate(turn.prompt - turn.kept, s.first_seconds), turn.answer,
        rate(std::max<size_t>(turn.answer, 1) - 1, s.answer_seconds), to_string(turn.reason)));
    return true;
  }
  bool leave(std::string_view) { return false; }

  llm::Chat& chat_;
  const Options& options_;
  Output& out_;
  bool is_interactive_;
  Statistics statistics_;
};

std::span<const ChatLoop::Command> ChatLoop::commands() {
  static constexpr auto kCommands = std::to_array<Command>({
      {"help", "Lists commands.", &ChatLoop::help},
      {"clear", "Drops the conversation.", &ChatLoop::clear},
      {"system", "TEXT: sets the system prompt from the next turn on.", &ChatLoop::set_system},
      {"stats", "Prints token counts and rates.", &ChatLoop::show_statistics},
      {"exit", "Ends the program, as does the end of the input.", &ChatLoop::leave},
  });
  return kCommands;
}

}  // namespace

int chat(CommandLine& line) {
  LanguageModelArguments arguments;
  SearchArguments search;
  ChatArguments template_arguments;
  arguments.declare(line);
  template_arguments.declare(line);
  search.declare(line);
  if (!line.parse()) return 0;

  const LanguageModel model(arguments, line.options());
  model.need_tokenizer("; chat requires one");
  llm::ChatOptions options;
  options.search = model.decoder()->config().search;
  search.apply(options.search);
  options.system = template_arguments.system;
  options.variables = template_arguments.variables();
  if (arguments.verbose) write_error_text(model.settings(options.search));
  llm::Chat chat(model.decoder(), model.tokenizer(), model.chat_templates(), std::move(options));
  ChatLoop(chat, line.options(), line.out()).run();
  return 0;
}

}  // namespace lathe::cli
