// SPDX-License-Identifier: MIT
// Renders a parsed template with variables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/value.h"

namespace lathe::templates {

// A range marked by `{% generation %}`, in characters of the rendered text.
struct CharacterRange {
  size_t begin = 0;
  size_t end = 0;
};

// The names visible in blocks and at top level. Variables set by the template at top level
// override the given ones.
struct Context {
  Ref<Dict> set;
  Ref<Dict> given;
  Value find(const std::string& name) const;  // missing for an unknown name
};

// The variables of a running function.
struct Activation : Object {
  Activation(Ref<Activation> around, uint32_t count, const Context* names)
      : outer(std::move(around)), slots(count, Value::missing()), context(names) {}
  Ref<Activation> outer;
  std::vector<Value> slots;
  const Context* context;
  bool is_kept = false;
};

struct Loop;

class Interpreter {
 public:
  // `given` are the variables; the global names are added.
  Interpreter(const Template& parsed, const Ref<Dict>& given);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string render();
  const std::vector<CharacterRange>& generations() const { return generations_; }

  // Used by callable objects.
  Value run_macro(const Node& node, const Ref<Activation>& outer, std::vector<Value> parameters,
                  const Value& caller, const Value& named, const Value& more);
  Value run_block(const Node& block, const Context& context);
  Value run_loop(const Node& node, Ref<Activation> outer, const Value& items, int64_t depth,
                 const Value& recurse);
  const Node* find_block(std::string_view name) const;
  const Context& context() const { return context_; }
  // Namespaces, activations and loops may form reference cycles: they are cleared at the end.
  void keep(const Ref<Namespace>& space) { kept_spaces_.push_back(space); }
  void keep(const Ref<Activation>& activation);
  void keep(const Ref<Loop>& loop);

 private:
  enum class Flow : uint8_t { next, leave_loop, next_item };

  // Statements.
  Flow run_all(const Nodes& nodes);
  Flow run(const Node& node);
  Flow run_for(const Node& node);
  Flow run_items(const Node& node, const Value& items, Loop* loop);
  Flow run_otherwise(const Node& node);
  Flow run_if(const Node& node);
  Flow run_set_block(const Node& node);
  Flow run_filter_block(const Node& node);
  Flow run_with(const Node& node);
  Flow run_autoescape(const Node& node);
  void run_output(const Node& node);
  void print_part(const Node& part);
  void run_set(const Node& node);
  void run_call_block(const Node& node);
  void run_generation(const Node& node);
  void print_block(const Node& node);
  void assign(const Node& target, const Value& value, bool is_exported);
  void check_namespaces(const Node& target);
  Value filtered(const Node& node, const Value& items);
  Value make_macro(const Node& node);

  // Scopes and output.
  void enter(const Scope& scope);
  void leave(const Scope& scope);
  Value& slot(Variable variable);
  std::string capture(const Nodes& body, Flow& flow);
  Value captured_text(std::string text);
  void print(std::string_view text);

  // Expressions.
  Value evaluate(const Node& node);
  Value evaluate_name(const Node& node);
  Value evaluate_sequence(const Node& node);
  Value evaluate_dict(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_concat(const Node& node);
  Value evaluate_item(const Node& node);
  Value evaluate_call(const Node& node, const Value& caller);
  Value evaluate_function(const Node& node, const Value* input);  // filter or test
  Value evaluate_chain(const Node& node, const Value& text);
  void evaluate_arguments(const CallArguments& in, Arguments& out);

  friend class Frame;

  const Template& parsed_;
  Context context_;
  Ref<Activation> activation_;
  std::vector<Ref<Activation>> kept_;
  std::vector<Ref<Namespace>> kept_spaces_;
  std::vector<Ref<Loop>> kept_loops_;
  std::string output_;
  std::string* sink_ = &output_;
  std::vector<CharacterRange> generations_;
};

}  // namespace lathe::templates
