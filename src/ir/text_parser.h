// SPDX-License-Identifier: MIT
// The parser behind parse_program(). The first pass over the text declares symbols, states and
// modules. The second builds each module where an instruction first refers to it as a body.
// Inference then has the operands' types.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/lexer.h"
#include "ir/op.h"
#include "ir/parse.h"

namespace lathe {

class TextParser {
 public:
  TextParser(std::string_view text, const ParseOptions& options)
      : options_(options), lexer_(text, options.file) {}

  std::unique_ptr<Program> run();
  // The whole text as a type of another program.
  Type run_type(Program& program, bool declares);

 private:
  enum class Progress : uint8_t { declared, building, built };
  struct ModuleEntry {
    Module* module = nullptr;
    size_t offset = 0;  // offset of the '(' after its name
    Progress progress = Progress::declared;
  };
  // A module under construction and its values so far.
  struct Scope {
    Module& module;
    std::map<std::string, Value*, std::less<>> values;
  };
  struct WrittenResult {
    size_t offset;
    std::string name;
  };
  struct WrittenArguments {
    Attributes attributes;
    std::vector<Module*> bodies;
  };

  // text_parser.cpp: the program and its declarations.
  void parse_header();
  void parse_declarations();
  void parse_symbol();
  void parse_state();
  void declare_module();
  void skip_module();
  int64_t parse_integer(std::string_view what);
  int64_t parse_bound(int64_t unbounded);
  std::string parse_string(std::string_view what);
  std::string parse_name(std::string_view what);  // a word or a string

  // text_parser_types.cpp: types, dims, attributes, literals.
  Type parse_type(int depth = 0);
  Dim parse_dim();
  std::vector<Dim> parse_dims(std::string_view closing);
  ElementType parse_element_type();
  double parse_number();
  Attribute parse_attribute(AttributeKind kind);
  template <class T, class F>
  std::vector<T> parse_list(F&& item);
  LiteralRef parse_literal();
  LiteralRef find_literal(const Type& type, size_t offset);

  // text_parser_module.cpp: modules and their instructions.
  void build(ModuleEntry& entry, size_t named_at, const Instruction* owner, int body);
  void parse_parameters(Scope& scope, const Instruction* owner, int body);
  Guard parse_guard();
  void parse_instruction(Scope& scope);
  std::vector<WrittenResult> parse_results(Scope& scope);
  Instruction* parse_literal_instruction(Scope& scope, const Op& op,
                                         const std::vector<WrittenResult>& results);
  std::vector<Value*> parse_operands(Scope& scope);
  WrittenArguments parse_arguments(const Op& op);
  void parse_argument(const Op& op, WrittenArguments& written);
  void complete(const Op& op, WrittenArguments& written, size_t offset);
  void parse_found(Instruction& instruction);
  void infer_at(Instruction& instruction, size_t offset);
  void compare_types(Instruction& instruction);
  void parse_layout(Instruction& instruction, int result);
  void parse_origins(Instruction& instruction);
  void parse_return(Scope& scope);
  void name_results(Scope& scope, Instruction& instruction,
                    const std::vector<WrittenResult>& results);
  Value* find_value(const Scope& scope, const Token& token) const;
  ModuleEntry& find_module(const Token& token);

  const ParseOptions& options_;
  Lexer lexer_;
  std::unique_ptr<Program> program_;
  std::map<std::string, ModuleEntry, std::less<>> modules_;
  int depth_ = 0;
  bool declares_ = false;  // types declare the symbols that they name
};

}  // namespace lathe
