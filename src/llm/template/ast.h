// SPDX-License-Identifier: MIT
// A parsed template. It owns its nodes; resolve.h binds names to variables.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

enum class Kind : uint8_t {
  // expressions
  constant,
  name,
  namespace_ref,
  tuple,
  list,
  dict,
  negative,
  positive,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  logical_and,
  logical_or,
  compare,
  concat,
  attribute,
  item,
  slice,
  filter,
  test,
  conditional,
  call,
  // statements
  text,
  output,
  for_loop,
  if_statement,
  macro,
  call_block,
  generation,
  filter_block,
  set,
  set_block,
  with,
  autoescape,
  block,
  load_template,  // extends, include, import, from
  break_loop,
  continue_loop,
};

enum class Comparison : uint8_t { eq, ne, gt, gteq, lt, lteq, in, not_in };

// A slot in the activation of the function `depth` levels further out.
struct Variable {
  uint32_t hops = 0;
  uint32_t slot = 0;
};

// Initialises the variables of a scope on entry; leaving the scope drops them.
struct Scope {
  struct Load {
    enum class Kind : uint8_t { resolve, alias, clear };
    Kind kind;
    uint32_t slot;
    Variable source;   // alias
    std::string name;  // resolve
  };
  std::vector<Load> loads;
  std::vector<uint32_t> slots;
};

struct Node;
using Nodes = std::vector<Node*>;

struct CallArguments {
  Nodes positional;
  std::vector<std::pair<std::string, Node*>> named;
  Node* more_positional = nullptr;  // *expression
  Node* more_named = nullptr;       // **expression
};

inline constexpr uint32_t kNoSlot = 0xffffffff;

// The parts of statements with bodies.
struct Body {
  Nodes statements;
  Nodes otherwise;              // of for_loop and if_statement
  Nodes targets;                // parameters of macro and call_block, targets of with
  Nodes values;                 // defaults of parameters, values of with
  Scope scope;                  // of the statements
  Scope otherwise_scope;        // of the else branch of a loop
  Scope test_scope;             // of the condition of a loop
  Node* test_target = nullptr;  // a copy of the target for the condition's function
  uint32_t slot_count = 0;      // of the statements' function
  uint32_t test_slot_count = 0;
  uint32_t loop_slot = kNoSlot;
  uint32_t caller_slot = kNoSlot;
  uint32_t named_slot = kNoSlot;  // kwargs
  uint32_t more_slot = kNoSlot;   // varargs
  uint32_t self_slot = kNoSlot;
  uint32_t super_slot = kNoSlot;
  std::vector<uint32_t> parameter_slots;
  std::vector<std::pair<std::string, Variable>> captured;  // by a scoped block
  bool is_recursive = false;
  bool is_scoped = false;
  bool is_required = false;
};

// One type for all kinds. The parser's functions document a, b and c.
struct Node {
  Kind kind = Kind::constant;
  bool is_stored = false;     // name as a target
  bool is_parameter = false;  // name declared by a signature or `with`
  bool is_exported = false;   // set at top level and visible in blocks
  bool is_soft = false;       // an unknown filter or test fails at run time
  uint32_t line = 0;
  uint32_t height = 1;
  Variable variable;  // name, namespace_ref, macro
  std::string text;   // name, attribute, filter, test, macro, block, data
  Value value;        // constant; the attribute of namespace_ref
  Node* a = nullptr;
  Node* b = nullptr;
  Node* c = nullptr;
  Nodes
      nodes;  // items of tuple, list, concat, output; keys and values of dict; operands of compare
  std::vector<Comparison> comparisons;
  std::unique_ptr<CallArguments> arguments;  // call, filter, test
  std::unique_ptr<Body> body;
};

struct Template {
  Template() = default;
  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  Nodes body;
  std::vector<Node*> blocks;  // in order
  Scope scope;
  uint32_t slot_count = 0;
  uint32_t self_slot = kNoSlot;
  std::vector<std::unique_ptr<Node>> nodes;
};

// The maximum size of a template in bytes.
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 19;

// TemplateError, with the line, for an invalid template.
std::unique_ptr<Template> parse_template(std::string_view source);

}  // namespace lathe::templates
