// SPDX-License-Identifier: MIT
#include "ir/text_parser.h"

#include <charconv>

#include "ir/print.h"
#include "ir/verify.h"

namespace lathe {
namespace {

template <class T>
std::vector<std::string_view> names_of(const std::map<std::string, T, std::less<>>& named) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : named) names.push_back(name);
  return names;
}

// Sets `value` to the enumerator up to `last` that prints as `name`.
template <class E>
bool find_named(std::string_view name, E& value, E last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (to_string(static_cast<E>(i)) != name) continue;
    value = static_cast<E>(i);
    return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Program> TextParser::run() {
  program_ = std::make_unique<Program>();
  parse_header();
  parse_declarations();
  lexer_.expect(TokenKind::end, "the end of the file after the program's '}'");
  // Bodies are built when an instruction refers to them; the remaining modules have no owner.
  for (const auto& module : program_->modules()) {
    ModuleEntry& entry = modules_.find(module->name())->second;
    if (entry.progress == Progress::declared) build(entry, entry.offset, nullptr, 0);
  }
  return std::move(program_);
}

void TextParser::parse_header() {
  lexer_.expect("program", "at the beginning of a program");
  program_->name = parse_string("the program's name in quotes");
  lexer_.expect("stage", "after the program's name");
  const Token word = lexer_.expect(TokenKind::word, "a stage");
  const std::optional<Stage> stage = stage_from_name(word.text);
  if (!stage) {
    std::vector<std::string_view> known;
    for (int i = 0; i <= static_cast<int>(Stage::planned); ++i) {
      known.push_back(to_string(static_cast<Stage>(i)));
    }
    lexer_.fail_at(word.offset, fmt::format("unknown stage '{}'{}", escape(word.text, 60),
                                            did_you_mean(word.text, known)));
  }
  program_->stage = *stage;
  lexer_.expect("{", "after the program's stage");
}

void TextParser::parse_declarations() {
  while (!lexer_.accept("}")) {
    const Token word = lexer_.expect(TokenKind::word, "meta, symbol, state, module or '}'");
    if (word.is("meta")) {
      const std::string key = parse_string("a key in quotes");
      lexer_.expect("=", "after the key");
      program_->metadata[key] = parse_string("a string in quotes");
    } else if (word.is("symbol")) {
      parse_symbol();
    } else if (word.is("state")) {
      parse_state();
    } else if (word.is("module")) {
      declare_module();
    } else {
      static constexpr std::string_view kKnown[] = {"meta", "symbol", "state", "module"};
      lexer_.fail_at(word.offset,
                     fmt::format("expected meta, symbol, state or module, found '{}'{}",
                                 escape(word.text, 60), did_you_mean(word.text, kKnown)));
    }
  }
  if (!modules_.contains("main")) {
    lexer_.fail_at(lexer_.position(),
                   fmt::format("the program '{}' has no module @main", escape(program_->name)));
  }
}

int64_t TextParser::parse_integer(std::string_view what) {
  const Token token = lexer_.expect(TokenKind::number, what);
  int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [rest, status] = std::from_chars(token.text.data(), end, value);
  if (status != std::errc() || rest != end) {
    lexer_.fail_at(token.offset,
                   fmt::format("expected {}, found '{}'", what, escape(token.text, 60)));
  }
  return value;
}

int64_t TextParser::parse_bound(int64_t unbounded) {
  return lexer_.accept("*") ? unbounded : parse_integer("a bound or '*'");
}

std::string TextParser::parse_string(std::string_view what) {
  return lexer_.name_of(lexer_.expect(TokenKind::string, what));
}

std::string TextParser::parse_name(std::string_view what) {
  if (lexer_.peek().kind == TokenKind::string) return lexer_.name_of(lexer_.take());
  return lexer_.name_of(lexer_.expect(TokenKind::word, what));
}

void TextParser::parse_symbol() {
  const size_t offset = lexer_.position();
  Symbol symbol;
  symbol.name = parse_name("a symbol's name");
  if (program_->find_symbol(symbol.name) != nullptr) {
    lexer_.fail_at(offset, fmt::format("symbol '{}' is declared twice", escape(symbol.name)));
  }
  const Token kind = lexer_.expect(TokenKind::word, "bound, length or found");
  if (!find_named(kind.text, symbol.kind, SymbolKind::found)) {
    lexer_.fail_at(kind.offset, fmt::format("expected bound, length or found, found '{}'",
                                            escape(kind.text, 60)));
  }
  const size_t range_at = lexer_.position();
  symbol.range.min = parse_bound(-kUnbounded);
  lexer_.expect("..", "between the bounds");
  symbol.range.max = parse_bound(kUnbounded);
  if (symbol.range.min > symbol.range.max) {
    lexer_.fail_at(range_at,
                   fmt::format("the range {}..{} is empty", symbol.range.min, symbol.range.max));
  }
  if (lexer_.accept("preferred")) {
    do symbol.preferred.push_back(parse_integer("a preferred size"));
    while (lexer_.accept(","));
  }
  program_->redefine_symbol(symbol);
}

void TextParser::parse_state() {
  const Token name = lexer_.expect(TokenKind::module, "the state's @name");
  State state;
  state.name = lexer_.name_of(name);
  if (program_->find_state(state.name) != nullptr) {
    lexer_.fail_at(name.offset, fmt::format("state '{}' is declared twice", escape(state.name)));
  }
  lexer_.expect(":", "after the state's name");
  const size_t type_at = lexer_.position();
  state.type = parse_type();
  if (!state.type.is_ranked()) {
    lexer_.fail_at(type_at, fmt::format("a state is a tensor of known rank, found {}",
                                        state.type.to_string()));
  }
  const Token kind = lexer_.expect(TokenKind::word, "the state's kind");
  if (!find_named(kind.text, state.kind, StateKind::cross)) {
    lexer_.fail_at(kind.offset,
                   fmt::format("expected append, window, scatter, carry or cross, found '{}'",
                               escape(kind.text, 60)));
  }
  if (lexer_.accept("axis")) {
    const size_t axis_at = lexer_.position();
    const int64_t axis = parse_integer("an axis");
    if (axis < 0 || axis >= state.type.rank()) {
      lexer_.fail_at(axis_at,
                     fmt::format("axis {} is out of range for {}", axis, state.type.to_string()));
    }
    state.axis = static_cast<int>(axis);
  }
  const bool grows = state.kind == StateKind::append || state.kind == StateKind::window;
  if (grows && state.axis < 0) {
    lexer_.fail_at(kind.offset,
                   fmt::format("state '{}' grows, so it needs an axis", escape(state.name)));
  }
  if (lexer_.accept("window")) state.window = parse_integer("the tokens that a window keeps");
  state.paged = lexer_.accept("paged");
  if (lexer_.accept("input")) state.input = parse_string("the input's name in quotes");
  if (lexer_.accept("output")) state.output = parse_string("the output's name in quotes");
  program_->states().push_back(std::move(state));
}

void TextParser::declare_module() {
  const Token token = lexer_.expect(TokenKind::module, "the module's @name");
  const std::string name = lexer_.name_of(token);
  if (modules_.empty() != (name == "main")) {
    lexer_.fail_at(token.offset, fmt::format("found '{}', but @main must be the first module",
                                             escape(token.text)));
  }
  if (modules_.contains(name)) {
    lexer_.fail_at(token.offset, fmt::format("module '{}' is declared twice", escape(name)));
  }
  ModuleEntry& entry = modules_[name];
  entry.module = name == "main" ? &program_->main() : &program_->add_module(name);
  entry.offset = lexer_.position();
  skip_module();
}

// Skips to the '}' that closes the module.
void TextParser::skip_module() {
  const size_t begin = lexer_.position();
  for (int64_t depth = 0;;) {
    if (lexer_.peek().kind == TokenKind::end) {
      lexer_.fail_at(begin,
                     fmt::format("the module that begins here is not closed: {} '}}' are missing",
                                 std::max<int64_t>(depth, 1)));
    }
    const Token token = lexer_.take();
    if (token.is("{")) ++depth;
    if (token.is("}") && --depth == 0) return;
  }
}

TextParser::ModuleEntry& TextParser::find_module(const Token& token) {
  const std::string name = lexer_.name_of(token);
  const auto at = modules_.find(name);
  if (at == modules_.end()) {
    lexer_.fail_at(token.offset, fmt::format("unknown module '{}'{}", escape(name),
                                             did_you_mean(name, names_of(modules_))));
  }
  return at->second;
}

bool looks_like_program(std::string_view bytes) {
  constexpr std::string_view kSpace = " \t\r\n";
  while (!bytes.empty()) {
    if (kSpace.find(bytes.front()) != std::string_view::npos) {
      bytes.remove_prefix(1);
    } else if (bytes.starts_with("//")) {
      bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size()));
    } else {
      break;
    }
  }
  constexpr std::string_view kWord = "program";
  return bytes.starts_with(kWord) && bytes.size() > kWord.size() &&
         (kSpace.find(bytes[kWord.size()]) != std::string_view::npos || bytes[kWord.size()] == '"');
}

std::unique_ptr<Program> parse_program(std::string_view text, const ParseOptions& options) {
  std::unique_ptr<Program> program = TextParser(text, options).run();
  if (options.verify) {
    const std::vector<std::string> problems = find_problems(*program, {.under_way = true});
    if (!problems.empty()) {
      Error error(ErrorKind::invalid_model,
                  fmt::format("{}: {}", escape(options.file), problems.front()));
      for (size_t i = 1; i < std::min<size_t>(problems.size(), 10); ++i) error.note(problems[i]);
      throw error;
    }
  }
  return program;
}

ParseOptions with_literals_of(const Program& program) {
  std::map<uint64_t, LiteralRef> by_hash;
  // Two literals may share a location with different types.
  std::map<std::tuple<std::string, int64_t, std::string>, LiteralRef> by_place;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal == nullptr) continue;
      if (!literal->file.empty()) {
        const Tensor& tensor = literal->tensor;
        by_place[{literal->file, literal->offset, to_string(tensor.type(), tensor.dims())}] =
            literal;
      } else if (prints_as_hash(*instruction)) {
        by_hash[literal->hash()] = literal;
      }
    }
  }
  ParseOptions options;
  options.file = program.name;
  options.literal_by_hash = [by_hash](uint64_t hash, const Type&) {
    const auto at = by_hash.find(hash);
    return at == by_hash.end() ? nullptr : at->second;
  };
  options.literal_in_file = [by_place](const std::string& file, int64_t offset, const Type& type) {
    const auto at = by_place.find({file, offset, type.to_string()});
    return at == by_place.end() ? nullptr : at->second;
  };
  return options;
}

}  // namespace lathe
