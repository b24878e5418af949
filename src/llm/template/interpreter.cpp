// SPDX-License-Identifier: MIT
#include "llm/template/interpreter.h"

#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/globals.h"
#include "llm/template/objects.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {

Value Context::find(const std::string& name) const {
  if (const Value* value = set->find(name)) return *value;
  if (const Value* value = given->find(name)) return *value;
  return Value::missing();
}

// Replaces the current variables and sink during its lifetime.
class Frame {
 public:
  Frame(Interpreter& interpreter, Ref<Activation> activation, std::string* sink)
      : interpreter_(interpreter),
        activation_(std::exchange(interpreter.activation_, std::move(activation))),
        sink_(std::exchange(interpreter.sink_, sink)) {}
  ~Frame() {
    interpreter_.activation_ = std::move(activation_);
    interpreter_.sink_ = sink_;
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Interpreter& interpreter_;
  Ref<Activation> activation_;
  std::string* sink_;
};

Interpreter::Interpreter(const Template& parsed, const Ref<Dict>& given) : parsed_(parsed) {
  context_.set = make<Dict>();
  context_.given = make_globals(*this);
  for (const auto& [name, value] : given->entries) context_.given->set(name, value);
}

Interpreter::~Interpreter() {
  for (const Ref<Namespace>& space : kept_spaces_) space->attributes = make<Dict>();
  for (const Ref<Activation>& activation : kept_) {
    std::vector<Value> slots = std::move(activation->slots);
    activation->slots.clear();
  }
  for (const Ref<Loop>& loop : kept_loops_) {
    loop->outer = Ref<Activation>();
    loop->last_changed = Value::missing();
  }
}

void Interpreter::keep(const Ref<Loop>& loop) {
  if (loop->is_kept) return;
  loop->is_kept = true;
  kept_loops_.push_back(loop);
}

void Interpreter::keep(const Ref<Activation>& activation) {
  if (activation->is_kept) return;
  activation->is_kept = true;
  kept_.push_back(activation);
}

std::string Interpreter::render() {
  activation_ = make<Activation>(Ref<Activation>(), parsed_.slot_count, &context_);
  activation_->charge(parsed_.slot_count * sizeof(Value));
  enter(parsed_.scope);
  if (parsed_.self_slot != kNoSlot) {
    activation_->slots[parsed_.self_slot] = make_callable<BlockReferences>(*this, context_);
  }
  run_all(parsed_.body);
  return std::move(output_);
}

const Node* Interpreter::find_block(std::string_view name) const {
  for (const Node* block : parsed_.blocks) {
    if (block->text == name) return block;
  }
  return nullptr;
}

void Interpreter::enter(const Scope& scope) {
  step(1 + scope.loads.size());
  for (const Scope::Load& load : scope.loads) {
    Value& place = activation_->slots[load.slot];
    switch (load.kind) {
      case Scope::Load::Kind::resolve:
        place = activation_->context->find(load.name);
        break;
      case Scope::Load::Kind::alias:
        place = Value(slot(load.source));
        break;
      case Scope::Load::Kind::clear:
        place = Value::missing();
    }
  }
}

void Interpreter::leave(const Scope& scope) {
  for (const uint32_t at : scope.slots) activation_->slots[at] = Value::missing();
}

Value& Interpreter::slot(Variable variable) {
  Activation* activation = activation_.get();
  for (uint32_t i = 0; i < variable.hops; ++i) activation = activation->outer.get();
  return activation->slots[variable.slot];
}

void Interpreter::print(std::string_view text) {
  step_text(text.size());
  const Budget* budget = Budget::current();
  if (budget != nullptr && sink_->size() + text.size() > budget->limits().output) {
    raise(Exception::limit, "the limit of {} bytes of output is exceeded", budget->limits().output);
  }
  sink_->append(text);
}

Value Interpreter::run_macro(const Node& node, const Ref<Activation>& outer,
                             std::vector<Value> parameters, const Value& caller, const Value& named,
                             const Value& more) {
  const Level level;
  const Body& body = *node.body;
  std::string text;
  const Ref<Activation> activation = make<Activation>(outer, body.slot_count, outer->context);
  activation->charge(body.slot_count * sizeof(Value));
  const Frame frame(*this, activation, &text);
  enter(body.scope);
  std::vector<Value>& slots = activation->slots;
  for (size_t i = 0; i < parameters.size(); ++i) {
    slots[body.parameter_slots[i]] = std::move(parameters[i]);
  }
  if (body.caller_slot != kNoSlot) slots[body.caller_slot] = caller;
  if (body.named_slot != kNoSlot) slots[body.named_slot] = named;
  if (body.more_slot != kNoSlot) slots[body.more_slot] = more;
  const size_t without_default = body.targets.size() - body.values.size();
  for (size_t i = 0; i < body.targets.size(); ++i) {
    const uint32_t at = body.parameter_slots[i];
    if (!slots[at].is_missing()) continue;
    if (i >= without_default) {
      Value value = evaluate(*body.values[i - without_default]);
      slots[at] = std::move(value);
    } else {
      const std::string& name = body.targets[i]->text;
      slots[at] = undefined_hint(
          fmt::format("parameter {} was not provided", repr(Value::string(name))), name);
    }
  }
  run_all(body.statements);
  return captured_text(std::move(text));
}

Value Interpreter::run_block(const Node& block, const Context& context) {
  const Level level;
  const Body& body = *block.body;
  std::string text;
  const Frame frame(*this, make<Activation>(Ref<Activation>(), body.slot_count, &context), &text);
  enter(body.scope);
  if (body.self_slot != kNoSlot) {
    activation_->slots[body.self_slot] = make_callable<BlockReferences>(*this, context);
  }
  if (body.super_slot != kNoSlot) {
    activation_->slots[body.super_slot] = undefined_hint(
        fmt::format("there is no parent block called {}.", repr(Value::string(block.text))),
        "super");
  }
  run_all(body.statements);
  return captured_text(std::move(text));
}

// `outer` is a copy because the frame below changes the current activation.
Value Interpreter::run_loop(const Node& node, Ref<Activation> outer, const Value& items,
                            int64_t depth, const Value&) {
  const Level level;
  std::string text;
  const Frame frame(*this, make<Activation>(outer, node.body->slot_count, outer->context), &text);
  const Ref<Loop> loop = make<Loop>(*this, node, filtered(node, items), depth);
  loop->outer = std::move(outer);
  keep(loop);
  keep(activation_);
  run_items(node, items, loop.get());
  return captured_text(std::move(text));
}

Value Interpreter::captured_text(std::string text) {
  return Value::string(std::move(text), is_escaping());
}

std::string Interpreter::capture(const Nodes& body, Flow& flow) {
  std::string text;
  const Frame frame(*this, activation_, &text);
  flow = run_all(body);
  return text;
}

// A macro, or the caller of a call block. It keeps the enclosing variables alive.
Value Interpreter::make_macro(const Node& node) {
  keep(activation_);
  return make_callable<Macro>(*this, node, activation_);
}

}  // namespace lathe::templates
