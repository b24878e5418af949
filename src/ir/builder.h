// SPDX-License-Identifier: MIT
// Creates instructions: checks operands and attributes, infers types, inserts.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/infer.h"
#include "ir/op.h"
#include "ir/program.h"

namespace lathe {

class Builder {
 public:
  // Appends to `module`, or inserts before `before`.
  explicit Builder(Module& module, Instruction* before = nullptr)
      : module_(&module), before_(before) {}

  Module& module() const { return *module_; }
  Instruction* before() const { return before_; }
  Program& program() const { return module_->program(); }
  void set_origins(std::vector<Origin> origins) { origins_ = std::move(origins); }
  const std::vector<Origin>& origins() const { return origins_; }

  // Adds one instruction and infers its types. Missing attributes take their defaults; unknown ones
  // are InvalidArgument. `results` is for ops with a variable number of results only.
  Instruction* add(const Op& op, std::vector<Value*> operands, Attributes attributes = {},
                   std::vector<Module*> bodies = {}, int results = 0, std::string_view name = "");
  // Adds an instruction and returns its first result.
  Value* operator()(const Op& op, std::vector<Value*> operands, Attributes attributes = {});
  // For importers and tests, which have ops by name.
  Instruction* add(std::string_view op, std::vector<Value*> operands, Attributes attributes = {},
                   std::vector<Module*> bodies = {}, int results = 0, std::string_view name = "");
  Value* operator()(std::string_view op, std::vector<Value*> operands, Attributes attributes = {});

  Value* literal(LiteralRef literal, std::string_view name = "");
  Value* literal(Tensor tensor, std::string_view name = "");
  // A rank-0 literal of the given element type.
  Value* scalar(ElementType type, double value);
  Value* integers(const std::vector<int64_t>& values);  // i64[n]
  // i64[n] of dims, evaluated once their symbols are bound; a literal if all are constant.
  Value* dims(const std::vector<Dim>& dims);
  // Shorthands for expansions.
  Value* reshape(Value* x, const std::vector<Dim>& dims);
  Value* expand(Value* x, const std::vector<Dim>& dims);
  Value* transpose(Value* x, const std::vector<int64_t>& permutation);
  Value* cast(Value* x, ElementType to);  // x itself if it has that type

 private:
  Module* module_;
  Instruction* before_;
  std::vector<Origin> origins_;
};

// Argument of an op's `expand` function: operands, attributes and a builder. The function calls
// `result` once per result, in order.
class Expansion {
 public:
  Expansion(const Instruction& instruction, Builder& builder)
      : b(builder), instruction_(instruction) {}

  Builder& b;
  int count() const { return static_cast<int>(instruction_.operands().size()); }
  bool has(int i) const;
  Value* operand(int i) const { return instruction_.operands()[static_cast<size_t>(i)]; }
  const Type& type(int i) const { return operand(i)->type(); }
  ElementType element(int i) const { return type(i).element; }
  int rank(int i) const { return type(i).rank(); }
  const std::vector<Dim>& dims(int i) const { return *type(i).dims; }
  const Dim& dim(int i, int axis) const { return dims(i)[static_cast<size_t>(axis)]; }
  const Type& result_type(int i = 0) const { return instruction_.result(i)->type(); }
  bool result_used(int i) const { return !instruction_.result(i)->uses().empty(); }
  bool has_attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  ElementType element_type(std::string_view name) const;
  const Integers& integers(std::string_view name) const;
  int axis(std::string_view attribute, int rank) const;
  const Instruction& instruction() const { return instruction_; }

  void result(Value* value) { results_.push_back(value); }
  const std::vector<Value*>& results() const { return results_; }

 private:
  const Instruction& instruction_;
  std::vector<Value*> results_;
};

// Copies the instructions of a body, which has no bodies itself, with these values for its
// parameters. Returns its results.
std::vector<Value*> inline_body(Builder& b, const Module& body,
                                const std::vector<Value*>& arguments);

// Replaces a composite instruction by its expansion (one level) and erases it. Internal error if
// the expansion's types differ from the instruction's.
void expand_instruction(Instruction* instruction);

}  // namespace lathe
