// SPDX-License-Identifier: MIT
// Any text is either a program that prints, parses and prints as the same text, or an error of the
// user's, never an internal one. Mutations exchange whole words, so that every op's inference meets
// operands and attributes made for others.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// A line that applies the op, with every attribute that it must have.
std::string call_of(const lathe::Op& op) {
  static constexpr const char* kValues[] = {"1",   "0.5",   "true",    "\"s\"",   "f32",
                                            "[0]", "[0.5]", "[\"s\"]", "dims(2)", "type(f32[2])"};
  std::string attributes;
  for (const lathe::AttributeSpec& spec : op.attributes) {
    attributes += fmt::format("{}{} = {}", attributes.empty() ? "" : ", ", spec.name,
                              kValues[static_cast<size_t>(spec.kind)]);
  }
  std::string operands;
  for (size_t i = 0; i < op.operands.size(); ++i) operands += i > 0 ? ", %x" : "%x";
  const char* results = op.results == 0 ? "" : op.results == 2 ? "%p, %q = " : "%p = ";
  return fmt::format("{}{}({}) {{{}}}\n", results, op.name, operands, attributes);
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
    if (op->bodies.empty()) words.push_back(call_of(*op));
    for (const lathe::AttributeSpec& spec : op->attributes) words.emplace_back(spec.name);
  }
  for (const lathe::ElementTypeInfo& type : lathe::element_types()) words.emplace_back(type.name);
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
  const std::string& word = vocabulary[random() % vocabulary.size()];
  if (word.back() == '\n') {
    // A whole line goes in front of the one hit.
    begin = text.rfind('\n', begin) + 1;
    end = begin;
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
