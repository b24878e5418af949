// SPDX-License-Identifier: MIT
#include "llm/template/value.h"

#include <cmath>

#include "llm/template/budget.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {

Object::~Object() {
  Budget* budget = Budget::current();
  if (charged_ > 0 && budget != nullptr) budget->give(charged_);
}

void Object::charge(size_t bytes) {
  Budget* budget = Budget::current();
  if (budget == nullptr) return;
  budget->take(bytes);
  charged_ += bytes;
}

void Object::dispose() {
  // Deleting an object may release others, which are queued.
  thread_local std::vector<Object*>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(this);
    return;
  }
  std::vector<Object*> line{this};
  waiting = &line;
  while (!line.empty()) {
    Object* object = line.back();
    line.pop_back();
    delete object;
  }
  waiting = nullptr;
}

Value::Value(Type type, Object* object) : type_(type) {
  as_.object = object;
  object->retain();
}
Value::Value(const Ref<Undefined>& object) : Value(Type::undefined, object.get()) {}
Value::Value(const Ref<String>& object) : Value(Type::string, object.get()) {}
Value::Value(const Ref<Sequence>& object)
    : Value(object->is_tuple ? Type::tuple : Type::list, object.get()) {}
Value::Value(const Ref<Dict>& object) : Value(Type::dict, object.get()) {}
Value::Value(const Ref<Range>& object) : Value(Type::range, object.get()) {}
Value::Value(const Ref<DictView>& object) : Value(Type::dict_view, object.get()) {}
Value::Value(const Ref<Iterator>& object) : Value(Type::iterator, object.get()) {}
Value::Value(const Ref<Namespace>& object) : Value(Type::name_space, object.get()) {}
Value::Value(const Ref<Callable>& object) : Value(Type::callable, object.get()) {}

Value Value::missing() {
  Value value;
  value.type_ = Type::missing;
  return value;
}
Value Value::boolean(bool truth) {
  Value value;
  value.type_ = Type::boolean;
  value.as_.integer = truth;
  return value;
}
Value Value::integer(int64_t whole) {
  Value value;
  value.type_ = Type::integer;
  value.as_.integer = whole;
  return value;
}
Value Value::real(double number) {
  Value value;
  value.type_ = Type::real;
  value.as_.real = number;
  return value;
}
Value Value::string(std::string text, bool is_markup) {
  const size_t size = text.size();
  step_text(size);
  foresee(size);
  Ref<String> object = make<String>(std::move(text), is_markup);
  object->charge(size);
  return object;
}
Value Value::list(std::vector<Value> items) {
  const size_t size = items.size() * sizeof(Value);
  Ref<Sequence> object = make<Sequence>(std::move(items));
  object->charge(size);
  return object;
}
Value Value::tuple(std::vector<Value> items) {
  const size_t size = items.size() * sizeof(Value);
  Ref<Sequence> object = make<Sequence>(std::move(items));
  object->is_tuple = true;
  object->charge(size);
  return object;
}

double Value::number() const {
  return type_ == Type::real ? as_.real : static_cast<double>(as_.integer);
}
const String& Value::string() const { return static_cast<const String&>(*as_.object); }
std::string_view Value::text() const { return string().text; }
bool Value::is_markup() const { return is_string() && string().markup; }
const std::vector<Value>& Value::items() const {
  return static_cast<const Sequence&>(*as_.object).items;
}
const Undefined& Value::undefined() const { return static_cast<const Undefined&>(*as_.object); }
Dict& Value::dict() const { return static_cast<Dict&>(*as_.object); }
Range& Value::range() const { return static_cast<Range&>(*as_.object); }
DictView& Value::view() const { return static_cast<DictView&>(*as_.object); }
Iterator& Value::iterator() const { return static_cast<Iterator&>(*as_.object); }
Namespace& Value::name_space() const { return static_cast<Namespace&>(*as_.object); }
Callable& Value::callable() const { return static_cast<Callable&>(*as_.object); }

String::String(std::string bytes, bool is_markup)
    : text(std::move(bytes)), length(count_characters(text)), markup(is_markup) {}

Value undefined_name(std::string_view name) {
  Ref<Undefined> object = make<Undefined>();
  object->of = Value::missing();
  object->name = Value::string(std::string(name));
  return object;
}
Value undefined_hint(std::string hint, std::string_view name) {
  const Value value = undefined_name(name);
  static_cast<Undefined*>(value.object())->hint = std::move(hint);
  return value;
}
Value undefined_member(const Value& of, const Value& name) {
  Ref<Undefined> object = make<Undefined>();
  object->of = of;
  object->name = name;
  return object;
}

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  if (of.is_missing()) return repr(name) + " is undefined";
  std::string owner(of.is_none() ? "None" : type_name(of));
  if (owner == "Undefined" || owner == "LoopContext" || owner == "Macro" ||
      owner == "BlockReference") {
    owner = "jinja2.runtime." + owner + " object";
  } else if (owner == "Cycler" || owner == "Joiner") {
    owner = "jinja2.utils." + owner + " object";
  } else if (owner == "TemplateNamespace") {
    owner = "transformers.utils.chat_template_utils.TemplateNamespace object";
  } else if (owner == "Markup") {
    owner = "markupsafe.Markup object";
  } else if (owner != "None") {
    owner += " object";
  }
  if (!name.is_string()) return owner + " has no element " + repr(name);
  return repr(Value::string(owner)) + " has no attribute " + repr(name);
}

int64_t Range::length() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

bool Iterator::next(Value& value) {
  if (!step_) return false;
  // Moved out while it runs: a generator is not reentrant and ends when it raises.
  auto running = std::exchange(step_, nullptr);
  step(1);
  if (!running(value)) return false;
  step_ = std::move(running);
  return true;
}

void Namespace::set(std::string_view name, Value value) {
  if (name.starts_with('_')) {
    raise(Exception::security,
          "Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}. "
          "Please rename the attribute.",
          repr(Value::string(std::string(name))));
  }
  attributes->set(name, std::move(value));
}

Value Callable::call(Arguments&) {
  raise(Exception::type, "'{}' object is not callable", type_name());
}
Value Callable::attribute(std::string_view) { return Value::missing(); }
Value Callable::item(const Value&) { return Value::missing(); }
int64_t Callable::length() {
  raise(Exception::type, "object of type '{}' has no len()", type_name());
}
Ref<Iterator> Callable::iterate() { return {}; }
std::string Callable::representation() const { return fmt::format("<{} object>", type_name()); }

std::string_view type_name(const Value& value) {
  switch (value.type()) {
    case Type::missing:
      return "_MissingType";
    case Type::undefined:
      return "Undefined";
    case Type::none:
      return "NoneType";
    case Type::boolean:
      return "bool";
    case Type::integer:
      return "int";
    case Type::real:
      return "float";
    case Type::string:
      return value.is_markup() ? "Markup" : "str";
    case Type::list:
      return "list";
    case Type::tuple:
      return static_cast<Sequence*>(value.object())->group ? "_GroupTuple" : "tuple";
    case Type::dict:
      return "dict";
    case Type::range:
      return "range";
    case Type::dict_view: {
      const DictView::Kind kind = value.view().kind;
      if (kind == DictView::Kind::keys) return "dict_keys";
      return kind == DictView::Kind::values ? "dict_values" : "dict_items";
    }
    case Type::iterator:
      return value.iterator().type_name;
    case Type::name_space:
      return "TemplateNamespace";
    case Type::callable:
      return value.callable().type_name();
  }
  return "object";
}

bool is_true(const Value& value) {
  switch (value.type()) {
    case Type::missing:
    case Type::undefined:
    case Type::none:
      return false;
    case Type::boolean:
    case Type::integer:
      return value.whole() != 0;
    case Type::real:
      return value.number() != 0;
    case Type::string:
      return !value.text().empty();
    case Type::callable:
      return !value.callable().has_length() || value.callable().length() > 0;
    case Type::iterator:
    case Type::name_space:
      return true;
    default:
      return length_of(value) > 0;
  }
}

bool has_length(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::string:
    case Type::list:
    case Type::tuple:
    case Type::dict:
    case Type::range:
    case Type::dict_view:
      return true;
    case Type::callable:
      return value.callable().has_length();
    default:
      return false;
  }
}

int64_t length_of(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
      return 0;
    case Type::string:
      return value.string().length;
    case Type::list:
    case Type::tuple:
      return value.items().size();
    case Type::dict:
      return value.dict().entries.size();
    case Type::range:
      return value.range().length();
    case Type::dict_view:
      return value.view().of->entries.size();
    case Type::callable:
      return value.callable().length();
    default:
      raise(Exception::type, "object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) {
  if (value.is(Type::callable)) return static_cast<bool>(value.callable().iterate());
  return value.is(Type::iterator) || has_length(value);
}

Cursor::Cursor(const Value& source) : source_(source) {
  if (source.is(Type::callable)) iterator_ = source.callable().iterate();
  if (source.is(Type::iterator)) iterator_ = &source.iterator();
  if (!iterator_ && !has_length(source)) {
    raise(Exception::type, "'{}' object is not iterable", type_name(source));
  }
}

bool Cursor::next(Value& value) {
  if (iterator_) return iterator_->next(value);
  step(1);
  switch (source_.type()) {
    case Type::list:
    case Type::tuple:
      if (at_ >= source_.items().size()) return false;
      value = source_.items()[at_++];
      return true;
    case Type::string: {
      if (at_ >= source_.text().size()) return false;
      const size_t begin = at_;
      next_character(source_.text(), at_);
      value = Value::string(std::string(source_.text().substr(begin, at_ - begin)));
      return true;
    }
    case Type::dict:
      if (at_ >= source_.dict().entries.size()) return false;
      value = source_.dict().entries[at_++].first;
      return true;
    case Type::range: {
      const Range& range = source_.range();
      if (static_cast<int64_t>(at_) >= range.length()) return false;
      value = Value::integer(range.start + static_cast<int64_t>(at_++) * range.step);
      return true;
    }
    case Type::dict_view: {
      const auto& entries = source_.view().of->entries;
      if (at_ >= entries.size()) return false;
      const auto& [key, held] = entries[at_++];
      const DictView::Kind kind = source_.view().kind;
      if (kind == DictView::Kind::items) {
        value = Value::tuple({key, held});
      } else {
        value = kind == DictView::Kind::keys ? key : held;
      }
      return true;
    }
    default:
      return false;
  }
}

std::vector<Value> to_vector(const Value& value) {
  if (value.is_sequence()) return value.items();
  std::vector<Value> items;
  Cursor cursor(value);
  Value item;
  while (cursor.next(item)) {
    items.push_back(item);
    if (items.size() % 1024 == 0) foresee(items.size() * sizeof(Value));
  }
  return items;
}

}  // namespace lathe::templates
