// SPDX-License-Identifier: MIT
// Programs, modules, instructions, values: Lathe's intermediate representation.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "ir/literal.h"
#include "ir/type.h"

namespace lathe {

struct ModelInfo;
struct Op;
class Instruction;
class Module;
class Program;

// True if the axes are an order of those of a ranked tensor.
bool is_layout(const std::vector<int>& layout, const Type& type);

// Source of an instruction, kept through passes for messages and profiles.
struct Origin {
  std::string file;
  std::string node;     // name of the node in the file, may be empty
  std::string op_type;  // the file's operator name
  int64_t index = -1;   // position of the node in its graph
};

// One use of a value: operand `index` of `user`, or result `index` of its module (null user).
struct Use {
  Instruction* user = nullptr;
  int index = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

// A result of an instruction or a parameter of a module.
class Value {
 public:
  const Type& type() const { return type_; }
  const std::string& name() const { return name_; }        // unique in its module, without '%'
  Instruction* definition() const { return definition_; }  // null for a parameter
  Module* module() const { return module_; }
  int index() const { return index_; }  // index among the results or parameters
  const std::vector<Use>& uses() const { return uses_; }
  // One dim per element, row-major, for small integer tensors with statically known values.
  const std::optional<std::vector<Dim>>& elements() const { return elements_; }

  // The order of the axes in memory, outermost first; empty: as in the type.
  const std::vector<int>& layout() const { return layout_; }

  void set_type(Type type) { type_ = std::move(type); }
  void set_elements(std::optional<std::vector<Dim>> elements) { elements_ = std::move(elements); }
  void set_layout(std::vector<int> layout) { layout_ = std::move(layout); }

 private:
  friend class Module;
  friend class Instruction;
  friend class Program;
  Type type_;
  std::string name_;
  Instruction* definition_ = nullptr;
  Module* module_ = nullptr;
  int index_ = 0;
  std::vector<Use> uses_;
  std::optional<std::vector<Dim>> elements_;
  std::vector<int> layout_;
};

// One application of an op to operands, with one or more results.
class Instruction {
 public:
  const Op& op() const { return *op_; }
  Module* module() const { return module_; }
  const std::vector<Value*>& operands() const { return operands_; }  // null: absent optional
  const std::deque<Value>& results() const { return results_; }
  Value* result(int index = 0) { return &results_[static_cast<size_t>(index)]; }
  const Value* result(int index = 0) const { return &results_[static_cast<size_t>(index)]; }
  const Attributes& attributes() const { return attributes_; }
  const std::vector<Module*>& bodies() const { return bodies_; }  // in the op's order
  const LiteralRef& literal() const { return literal_; }          // op `literal` only
  const std::vector<Origin>& origins() const { return origins_; }
  // Data-dependent symbols that running this instruction defines, in the order of inference.
  const std::vector<SymbolRef>& found() const { return found_; }
  // After lowering: the module that this instruction implements.
  Module* implements() const { return implements_; }
  // Evaluated when the plan is made, never at run time: every operand is a literal or deferred.
  bool deferred() const { return deferred_; }
  // After placement: the target that runs it; empty: the one compiled for, or the executor.
  const std::string& target() const { return target_; }

  void set_operand(int index, Value* value);
  void set_attribute(std::string_view name, Attribute value);
  void set_origins(std::vector<Origin> origins) { origins_ = std::move(origins); }
  void set_literal(LiteralRef literal) { literal_ = std::move(literal); }
  void set_implements(Module* module) { implements_ = module; }
  void set_deferred(bool deferred) { deferred_ = deferred; }
  void set_target(std::string_view target) { target_ = target; }
  void add_found(SymbolRef symbol) { found_.push_back(std::move(symbol)); }
  void clear_found() { found_.clear(); }
  void set_body(int index, Module* body) { bodies_[static_cast<size_t>(index)] = body; }

 private:
  friend class Module;
  friend class Program;
  const Op* op_ = nullptr;
  Module* module_ = nullptr;
  std::vector<Value*> operands_;
  std::deque<Value> results_;  // a deque keeps addresses stable
  Attributes attributes_;
  std::vector<Module*> bodies_;
  LiteralRef literal_;
  std::vector<Origin> origins_;
  std::vector<SymbolRef> found_;
  Module* implements_ = nullptr;
  bool deferred_ = false;
  std::string target_;
  std::list<std::unique_ptr<Instruction>>::iterator position_;
};

// A condition on symbols, checked once they are bound. A failed requirement is an error; a failed
// assumption selects another variant.
struct Guard {
  enum class Kind : uint8_t { requirement, assumption };
  enum class Relation : uint8_t { equal, less_equal, broadcast };  // broadcast: a = b, or one is 1
  Kind kind = Kind::requirement;
  Relation relation = Relation::equal;
  Dim a;
  Dim b;
  std::string reason;  // "matmul 'x': columns of a and rows of b"
  // Ignores the reason.
  friend bool operator==(const Guard& x, const Guard& y);
};

// An ordered list of instructions with parameters and results. Bodies are closed: captured values
// are operands of their instruction.
class Module {
 public:
  using Instructions = std::list<std::unique_ptr<Instruction>>;

  const std::string& name() const { return name_; }
  Program& program() const { return *program_; }
  const std::vector<std::unique_ptr<Value>>& parameters() const { return parameters_; }
  const Instructions& instructions() const { return instructions_; }
  const std::vector<Value*>& results() const { return results_; }
  const std::vector<std::string>& result_names() const { return result_names_; }
  std::vector<Guard>& guards() { return guards_; }
  const std::vector<Guard>& guards() const { return guards_; }

  // A name in use gets a number appended; an empty name becomes a number.
  Value* add_parameter(Type type, std::string_view name);
  void remove_parameter(int index);  // Internal error if it is used
  // Appends, or inserts before `before`. Results have no types until infer().
  Instruction* insert(const Op& op, std::vector<Value*> operands, Attributes attributes,
                      std::vector<Module*> bodies, int result_count, Instruction* before = nullptr,
                      std::string_view name = "");
  void set_results(std::vector<Value*> results, std::vector<std::string> names);
  void set_result(int index, Value* value);
  void remove_result(int index);
  void rename(Value* value, std::string_view name);
  // Moves `instruction` directly before `before` (null: to the end).
  void move(Instruction* instruction, Instruction* before);
  void replace_uses(Value* from, Value* to);
  void erase(Instruction* instruction);  // Internal error if a result is still used
  void add_guard(Guard guard);           // ignores duplicates

 private:
  friend class Program;
  std::string unique_name(std::string_view hint);
  Program* program_ = nullptr;
  std::string name_;
  std::vector<std::unique_ptr<Value>> parameters_;
  Instructions instructions_;
  std::vector<Value*> results_;
  std::vector<std::string> result_names_;
  std::vector<Guard> guards_;
  std::map<std::string, int64_t, std::less<>> names_;  // name in use → next number to try
  int64_t next_number_ = 0;
};

enum class StateKind : uint8_t { append, window, scatter, carry, cross };
std::string_view to_string(StateKind kind);
std::string_view to_string(SymbolKind kind);

// A tensor that persists across runs and is updated in place.
struct State {
  std::string name;  // without '@'
  StateKind kind = StateKind::append;
  Type type;           // append, window: dims[axis] is the length symbol
  int axis = -1;       // append, window: the axis that grows
  int64_t window = 0;  // window: tokens kept
  // The memory is the caller's, bound to every run: axis 0 counts pages of a KV cache, or slots of
  // sequences. The caller commits.
  bool paged = false;
  std::string input;  // names of past and present in the file
  std::string output;
};

enum class Stage : uint8_t { imported, canonical, optimised, fused, lowered, planned };
std::string_view to_string(Stage stage);
std::optional<Stage> stage_from_name(std::string_view name);

// The unit of compilation: named modules (one of them `main`), symbols, states.
class Program {
 public:
  Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  std::string name;  // the model's file name, for messages
  Stage stage = Stage::imported;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const ModelInfo> model;  // null: not from a model's file

  Module& main() const { return *modules_.front(); }
  const std::vector<std::unique_ptr<Module>>& modules() const { return modules_; }
  Module* find_module(std::string_view module_name) const;
  Module& add_module(std::string_view hint);  // made unique
  void remove_module(Module* module);

  // The symbol of this name, or null.
  SymbolRef find_symbol(std::string_view symbol_name) const;
  // A new symbol named `hint`, or `hint` with a number if that is in use.
  SymbolRef add_symbol(std::string_view hint, SymbolKind kind, Range range,
                       std::vector<int64_t> preferred = {});
  // Replaces the symbol's properties; dims with the old object still compare equal.
  SymbolRef redefine_symbol(const Symbol& symbol);
  const std::map<std::string, SymbolRef, std::less<>>& symbols() const { return symbols_; }
  void remove_symbol(std::string_view symbol_name) { symbols_.erase(std::string(symbol_name)); }

  std::vector<State>& states() { return states_; }
  const std::vector<State>& states() const { return states_; }
  const State* find_state(std::string_view state_name) const;

  // A deep copy; literals are shared.
  std::unique_ptr<Program> clone() const;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, SymbolRef, std::less<>> symbols_;
  std::vector<State> states_;
};

}  // namespace lathe
