// SPDX-License-Identifier: MIT
// Any text is a program that prints and parses as the same text, or an error that is not internal.
// Mutations exchange whole words, so that inference of every op gets operands and attributes of
// other ops.
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/dot.h"
#include "ir/json.h"
#include "ir/op.h"
#include "ir/parse.h"
#include "ir/print.h"

namespace {

[[noreturn]] void stop(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

// The end of a list of operands: its closing ')'.
size_t closing(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '(' || text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == ')' || text[at] == '}' || text[at] == ']') --depth;
    if (depth < 0 || (depth == 0 && text[at] == ',')) return at;
  }
  return text.size();
}

// Expands "relu(f32[2] {-1, 1}) {…}" to lines of a module: a literal per operand, then the
// instruction.
std::string lines_of(const std::string& row) {
  std::string lines;
  std::string operands;
  const size_t open = row.find('(');
  size_t at = open + 1;
  for (int number = 0; at < row.size() && row[at - 1] != ')'; ++number) {
    const size_t end = closing(row, at);
    const std::string operand = row.substr(at, end - at);
    const bool is_literal = operand.ends_with('}');
    if (is_literal) lines += fmt::format("%l{} = literal {}\n", number, operand);
    operands += (number > 0 ? ", " : "") + (is_literal ? fmt::format("%l{}", number) : "_");
    at = end + 1;
  }
  const std::string rest = at < row.size() ? row.substr(at, row.find(" = ", at) - at) : "";
  return fmt::format("{}%p = {}({}){}\n", lines, row.substr(0, open), operands, rest);
}

// The rows of the op tests: a valid one for every op.
void add_rows(std::vector<std::string>& words) {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("tests/ops", missing)) {
    if (entry.path().extension() != ".test") continue;
    std::ifstream file(entry.path());
    std::string row;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(" ")) {
        row += line;
      } else {
        if (row.find('(') != std::string::npos) words.push_back(lines_of(row));
        row = line.starts_with("#") ? "" : line;
      }
    }
    if (row.find('(') != std::string::npos) words.push_back(lines_of(row));
  }
}

std::vector<std::string> make_vocabulary() {
  std::vector<std::string> words{"0",
                                 "1",
                                 "-1",
                                 "2",
                                 "3",
                                 "64",
                                 "9223372036854775807",
                                 "_",
                                 "%x",
                                 "%y",
                                 "%d",
                                 "found",
                                 "seq<f32[*]>",
                                 "f32[*]",
                                 "[]",
                                 "i64[2]",
                                 "f32[2, batch]",
                                 "dims(batch, -1)",
                                 "bcast(batch, 3)"};
  for (const lathe::Op* op : lathe::all_ops()) {
    words.emplace_back(op->name);
    for (const lathe::AttributeSpec& spec : op->attributes) words.emplace_back(spec.name);
  }
  for (const lathe::ElementTypeInfo& type : lathe::element_types()) words.emplace_back(type.name);
  add_rows(words);
  return words;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%';
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const std::vector<std::string> vocabulary = make_vocabulary();
  std::minstd_rand random(seed);
  if (size == 0 || random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  size_t begin = random() % text.size();
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  size_t end = begin;
  while (end < text.size() && is_word(text[end])) ++end;
  std::string word = vocabulary[random() % vocabulary.size()];
  if (word.back() == '\n') {
    // Inserts a line before the chosen one.
    begin = text.rfind('\n', begin) + 1;
    end = begin;
    // Its names are unique.
    const std::string number = std::to_string(random() % 10000);
    for (size_t at = word.find('%'); at != std::string::npos; at = word.find('%', at + 1)) {
      word.insert(at + 1, number + "_");
    }
  }
  text.replace(begin, end - begin, word);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<lathe::Program> program;
  try {
    program = lathe::parse_program(text);
  } catch (const lathe::Error& error) {
    if (error.kind() == lathe::ErrorKind::internal) stop("internal error", error.what());
    return 0;
  }
  const std::string once = lathe::print(*program);
  try {
    const auto again = lathe::parse_program(once, lathe::with_literals_of(*program));
    const std::string twice = lathe::print(*again);
    if (once != twice) stop("the text changes", once + "\n---\n" + twice);
  } catch (const lathe::Error& error) {
    stop("printed text does not parse", error.what() + ("\n" + once));
  }
  (void)lathe::to_dot(*program);
  (void)lathe::to_json(*program);
  return 0;
}
