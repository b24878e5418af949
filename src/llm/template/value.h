// SPDX-License-Identifier: MIT
// Template values: the subset of Python's types that a sandboxed template can reach.
//
// Objects are reference-counted within one thread. Objects of a parsed template are immortal, so
// threads can share them. Strings, lists and dicts are immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llm/template/errors.h"

namespace lathe::templates {

enum class Type : uint8_t {
  missing,  // no value: an absent argument or an unset variable
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  dict_view,
  iterator,
  name_space,
  callable,
};

class Object {
 public:
  virtual ~Object();
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void retain() {
    if (references_ != kImmortal) ++references_;
  }
  void release() {
    if (references_ != kImmortal && --references_ == 0) dispose();
  }
  void make_immortal() { references_ = kImmortal; }
  void make_mortal() { references_ = 1; }  // requires a single reference
  // Charges bytes to the current budget until the object is destroyed.
  void charge(size_t bytes);

 private:
  static constexpr uint32_t kImmortal = 0xffffffff;
  void dispose();  // without recursion

  uint32_t references_ = 0;
  size_t charged_ = 0;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Arguments>
Ref<T> make(Arguments&&... arguments) {
  Ref<T> object(new T(std::forward<Arguments>(arguments)...));
  object->charge(sizeof(T));
  return object;
}

struct Undefined;
struct String;
struct Sequence;
struct Dict;
struct Range;
struct DictView;
struct Iterator;
struct Namespace;
struct Callable;

class Value {
 public:
  Value() : type_(Type::none) { as_.integer = 0; }
  Value(const Value& other) : type_(other.type_), as_(other.as_) {
    if (holds_object()) as_.object->retain();
  }
  Value(Value&& other) noexcept : type_(other.type_), as_(other.as_) { other.type_ = Type::none; }
  Value& operator=(Value other) noexcept {
    std::swap(type_, other.type_);
    std::swap(as_, other.as_);
    return *this;
  }
  ~Value() {
    if (holds_object()) as_.object->release();
  }

  static Value missing();
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value real(double value);
  static Value string(std::string text, bool is_markup = false);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  Value(const Ref<Undefined>& object);
  Value(const Ref<String>& object);
  Value(const Ref<Sequence>& object);
  Value(const Ref<Dict>& object);
  Value(const Ref<Range>& object);
  Value(const Ref<DictView>& object);
  Value(const Ref<Iterator>& object);
  Value(const Ref<Namespace>& object);
  Value(const Ref<Callable>& object);

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_missing() const { return type_ == Type::missing; }
  bool is_none() const { return type_ == Type::none; }
  bool is_string() const { return type_ == Type::string; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_integral() const { return type_ == Type::integer || type_ == Type::boolean; }
  bool is_number() const { return is_integral() || type_ == Type::real; }
  bool is_sequence() const { return type_ == Type::list || type_ == Type::tuple; }
  bool is_markup() const;

  bool truth() const { return as_.integer != 0; }  // of a boolean
  int64_t whole() const { return as_.integer; }    // of a boolean or integer
  double number() const;                           // of any number
  std::string_view text() const;                   // of a string
  const String& string() const;
  const std::vector<Value>& items() const;  // of a list or tuple
  const Undefined& undefined() const;
  Dict& dict() const;
  Range& range() const;
  DictView& view() const;
  Iterator& iterator() const;
  Namespace& name_space() const;
  Callable& callable() const;
  Object* object() const { return holds_object() ? as_.object : nullptr; }

 private:
  Value(Type type, Object* object);
  bool holds_object() const { return type_ >= Type::string || type_ == Type::undefined; }

  Type type_;
  union {
    int64_t integer;
    double real;
    Object* object;
  } as_;
};

struct Undefined : Object {
  std::string hint;
  Value of;    // the parent; missing for a variable
  Value name;  // of the attribute, item or variable
  Exception exception = Exception::undefined;

  std::string message() const;
  [[noreturn]] void fail() const { raise_text(exception, message()); }
};
Value undefined_name(std::string_view name);
Value undefined_hint(std::string hint, std::string_view name = {});
Value undefined_member(const Value& of, const Value& name);

struct String : Object {
  String(std::string bytes, bool is_markup);
  const std::string text;
  const size_t length;  // characters
  const bool markup;
  bool is_ascii() const { return length == text.size(); }
};

struct Sequence : Object {
  explicit Sequence(std::vector<Value> values, bool is_group = false)
      : items(std::move(values)), group(is_group) {}
  std::vector<Value> items;
  bool group;  // a groupby tuple, whose items have names
  bool is_tuple = false;
};

size_t hash(const Value& value);  // TypeError for unhashable types
bool equal(const Value& a, const Value& b);

// Keeps insertion order.
struct Dict : Object {
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
  void set(std::string_view key, Value value);

  std::vector<std::pair<Value, Value>> entries;

 private:
  ptrdiff_t place(const Value& key, size_t key_hash) const;
  std::vector<size_t> hashes_;
  std::unordered_multimap<size_t, size_t> index_;  // built for large dicts
};

struct Range : Object {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t length() const;
};

struct DictView : Object {
  enum class Kind { keys, values, items };
  Ref<Dict> of;
  Kind kind = Kind::keys;
};

// A single pass over items; `next` returns false at and after the end.
struct Iterator : Object {
  explicit Iterator(std::function<bool(Value&)> step, std::string_view python_name = "generator")
      : step_(std::move(step)), type_name(python_name) {}
  bool next(Value& value);

 private:
  std::function<bool(Value&)> step_;

 public:
  const std::string_view type_name;
};

struct Namespace : Object {
  Ref<Dict> attributes;
  void set(std::string_view name, Value value);  // SecurityError for names with an underscore
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Functions, methods, macros and other objects with custom behaviour.
struct Callable : Object {
  virtual Value call(Arguments& arguments);
  virtual std::string_view type_name() const { return "builtin_function_or_method"; }
  virtual Value attribute(std::string_view name);  // missing for an unknown name
  virtual Value item(const Value& key);
  virtual bool is_callable() const { return true; }
  virtual int64_t length();  // TypeError by default
  virtual bool has_length() const { return false; }
  virtual Ref<Iterator> iterate();  // null if it is not iterable
  virtual std::string representation() const;
};

// Python's type(value).__name__.
std::string_view type_name(const Value& value);
bool is_true(const Value& value);
// len(value); TypeError for a value without a length.
int64_t length_of(const Value& value);
bool has_length(const Value& value);

// Iterates a value; TypeError if it is not iterable.
class Cursor {
 public:
  explicit Cursor(const Value& source);
  bool next(Value& value);

 private:
  Value source_;
  size_t at_ = 0;
  Ref<Iterator> iterator_;
};
bool is_iterable(const Value& value);
std::vector<Value> to_vector(const Value& value);

}  // namespace lathe::templates
