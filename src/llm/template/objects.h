// SPDX-License-Identifier: MIT
// Objects created by statements: macros, loops and references to blocks.
#pragma once

#include <string>

#include "llm/template/interpreter.h"

namespace lathe::templates {

struct Macro : Callable {
  Macro(Interpreter& runs, const Node& definition, Ref<Activation> closure)
      : interpreter(runs), node(definition), outer(std::move(closure)) {}
  Value call(Arguments& arguments) override;
  std::string_view type_name() const override { return "Macro"; }
  Value attribute(std::string_view name) override;
  std::string representation() const override;

  Interpreter& interpreter;
  const Node& node;
  const Ref<Activation> outer;
};

// `loop` inside of a for statement.
struct Loop : Callable {
  Loop(Interpreter& runs, const Node& statement, const Value& items, int64_t level);
  bool advance(Value& item);
  Value call(Arguments& arguments) override;
  std::string_view type_name() const override { return "LoopContext"; }
  Value attribute(std::string_view name) override;
  int64_t length() override;
  bool has_length() const override { return true; }
  Ref<Iterator> iterate() override;
  std::string representation() const override;

  bool peek();

  Interpreter& interpreter;
  const Node& node;
  Value source;
  Cursor cursor;
  Ref<Activation> outer;  // of a recursive loop
  int64_t depth0;
  int64_t index0 = -1;
  int64_t known_length = -1;
  Value before = Value::missing();
  Value current = Value::missing();
  Value after = Value::missing();
  Value last_changed = Value::missing();
  bool is_kept = false;
};

struct BlockReference : Callable {
  BlockReference(Interpreter& runs, const Node& block, const Context& names)
      : interpreter(runs), node(block), context(names) {}
  Value call(Arguments& arguments) override;
  std::string_view type_name() const override { return "BlockReference"; }
  Value attribute(std::string_view name) override;

  Interpreter& interpreter;
  const Node& node;
  const Context& context;
};

// `self`: the blocks of the template by name.
struct BlockReferences : Callable {
  BlockReferences(Interpreter& runs, const Context& names) : interpreter(runs), context(names) {}
  std::string_view type_name() const override { return "TemplateReference"; }
  Value item(const Value& key) override;
  bool is_callable() const override { return false; }
  std::string representation() const override { return "<TemplateReference None>"; }

  Interpreter& interpreter;
  const Context& context;
};

template <class T, class... Arguments>
Value make_callable(Arguments&&... arguments) {
  const Ref<T> object = make<T>(std::forward<Arguments>(arguments)...);
  return Ref<Callable>(object.get());
}

}  // namespace lathe::templates
