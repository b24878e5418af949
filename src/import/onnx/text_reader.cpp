// SPDX-License-Identifier: MIT
#include "import/onnx/text_reader.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <unordered_set>

#include "base/error.h"
#include "import/onnx/text_values.h"
#include "import/onnx/well_formed.h"

namespace lathe::onnx {
namespace {

using Token = TextLexer::Token;
using Word = TextLexer::Kind;
using Kind = Attribute::Kind;

// Type annotations of attributes: "alpha: float = 1".
struct KindName {
  std::string_view word;
  Kind kind;
};
constexpr std::array kKindNames{
    KindName{"float", Kind::number},    KindName{"int", Kind::integer},
    KindName{"string", Kind::text},     KindName{"tensor", Kind::tensor},
    KindName{"graph", Kind::graph},     KindName{"floats", Kind::numbers},
    KindName{"ints", Kind::integers},   KindName{"strings", Kind::texts},
    KindName{"tensors", Kind::tensors}, KindName{"graphs", Kind::graphs},
    KindName{"type_proto", Kind::type},
};

// Models in this syntax are small and hand-written.
constexpr size_t kMaxText = 32 << 20;

class Parser {
 public:
  Parser(std::string_view text, std::string_view origin, TextMemory& memory,
         const TensorSource& source)
      : lexer_(text, origin, memory.unescaped), source_(source) {}

  void model(Model& out) {
    out.ir_version = kIrVersion;
    if (lexer_.take_symbol('<')) {
      do {
        model_property(out);
      } while (lexer_.take_symbol(','));
      lexer_.expect_symbol('>');
    }
    out.graph = graph(lexer_.expect_name("the graph's name"));
    while (lexer_.peek().kind != Word::end) out.functions.push_back(function());
  }

 private:
  void model_property(Model& out) {
    const Token key = property_key();
    if (key.text == "ir_version")
      out.ir_version = lexer_.expect_integer("a version");
    else if (key.text == "model_version")
      out.model_version = lexer_.expect_integer("a version");
    else if (key.text == "opset_import")
      out.imports = imports();
    else if (key.text == "producer_name")
      out.producer = lexer_.expect_text("a quoted name");
    else if (key.text == "producer_version")
      out.producer_version = lexer_.expect_text("a version");
    else if (key.text == "domain")
      out.domain = lexer_.expect_text("a quoted domain");
    else if (key.text == "doc_string")
      (void)lexer_.expect_text("a string");
    else if (key.text == "metadata_props")
      out.metadata = metadata();
    else
      lexer_.fail_at(key, fmt::format("a model has no property '{}'", escape(key.text)));
  }

  Token property_key() {
    const Token key = lexer_.peek();
    lexer_.expect_word("a property");
    lexer_.expect_symbol(':');
    return key;
  }

  // "[ item, item ]"
  template <class F>
  void bracketed(F&& item) {
    lexer_.expect_symbol('[');
    while (!lexer_.at_symbol(']')) {
      item();
      if (!lexer_.take_symbol(',')) break;
    }
    lexer_.expect_symbol(']');
  }

  OpsetImports imports() {
    OpsetImports out;
    bracketed([&] {
      const std::string_view domain = lexer_.expect_text("a quoted domain");
      lexer_.expect_symbol(':');
      out.push_back({canonical_domain(domain), lexer_.expect_integer("a version")});
    });
    return out;
  }

  std::vector<std::pair<std::string_view, std::string_view>> metadata() {
    std::vector<std::pair<std::string_view, std::string_view>> out;
    bracketed([&] {
      const std::string_view key = lexer_.expect_text("a quoted key");
      lexer_.expect_symbol(':');
      out.emplace_back(key, lexer_.expect_text("a quoted value"));
    });
    return out;
  }

  // A name after an optional type. A type's word may also be a name.
  ValueInfo value_info() {
    ValueInfo out;
    if (lexer_.peek().kind == Word::word && is_type_word(lexer_.peek().text)) {
      out.type = parse_type(lexer_);
    }
    out.name = lexer_.expect_name("a value's name");
    return out;
  }

  // "( a, b = {…} )" or "< … >": typed names, some with elements.
  void value_infos(char open, char close, std::vector<ValueInfo>& out, Graph& owner,
                   bool keep_initialised) {
    lexer_.expect_symbol(open);
    if (lexer_.take_symbol(close)) return;
    do {
      ValueInfo info = value_info();
      const bool is_initialised = lexer_.take_symbol('=');
      if (is_initialised) {
        owner.initializers.push_back(parse_tensor(lexer_, info.type, info.name, source_));
      }
      if (keep_initialised || !is_initialised) out.push_back(std::move(info));
    } while (lexer_.take_symbol(','));
    lexer_.expect_symbol(close);
  }

  Graph graph(std::string_view name) {
    if (depth_ == kMaxGraphDepth)
      lexer_.fail_at(lexer_.peek(),
                     fmt::format("subgraphs nest deeper than {} levels", kMaxGraphDepth));
    ++depth_;
    Graph out;
    out.name = name;
    value_infos('(', ')', out.inputs, out, true);
    lexer_.expect_arrow();
    value_infos('(', ')', out.outputs, out, true);
    if (lexer_.at_symbol('<')) value_infos('<', '>', out.value_infos, out, false);
    out.nodes = nodes();
    --depth_;
    return out;
  }

  std::vector<Node> nodes() {
    std::vector<Node> out;
    lexer_.expect_symbol('{');
    while (!lexer_.take_symbol('}')) {
      out.push_back(node());
      out.back().index = static_cast<int64_t>(out.size()) - 1;
    }
    return out;
  }

  // Names separated by commas; each may be missing.
  std::vector<std::string_view> names() {
    std::vector<std::string_view> out;
    const auto at_name = [&] {
      return lexer_.peek().kind == Word::word || lexer_.peek().kind == Word::text;
    };
    if (!at_name() && !lexer_.at_symbol(',')) return out;
    out.push_back(at_name() ? lexer_.next().text : std::string_view());
    while (lexer_.take_symbol(',')) {
      if (at_name())
        out.push_back(lexer_.next().text);
      else if (lexer_.at_symbol(','))
        out.emplace_back();
      else
        break;
    }
    return out;
  }

  // "[label] y = my.domain.Op:overload <attributes> (x)"; the attributes may also come last.
  Node node() {
    Node out;
    if (lexer_.take_symbol('[')) {
      if (!lexer_.at_symbol(']')) out.name = lexer_.expect_name("the node's name");
      lexer_.expect_symbol(']');
    }
    out.outputs = names();
    lexer_.expect_symbol('=');
    const Token first = lexer_.peek();
    Token last = first;
    lexer_.expect_word("an operator");
    while (lexer_.take_symbol('.')) {
      last = lexer_.peek();
      lexer_.expect_word("the rest of the operator's name");
    }
    out.op_type = last.text;
    if (last.begin > first.begin) out.domain = canonical_domain(domain(first, last));
    if (lexer_.take_symbol(':')) out.overload = lexer_.expect_name("an overload");
    if (lexer_.at_symbol('<')) out.attributes = attributes();
    lexer_.expect_symbol('(');
    out.inputs = names();
    lexer_.expect_symbol(')');
    if (out.attributes.empty() && lexer_.at_symbol('<')) out.attributes = attributes();
    return out;
  }

  // The text from the first word to the last dot. A domain has no blanks.
  std::string_view domain(const Token& first, const Token& last) const {
    const char* begin = first.text.data();
    const auto size = static_cast<size_t>(last.text.data() - begin);
    std::string_view text(begin, size);
    text.remove_suffix(text.size() - text.rfind('.'));
    if (text.find_first_of(" \t\r\n#") != std::string_view::npos) {
      lexer_.fail_at(first, "a domain has no blanks");
    }
    return text;
  }

  std::vector<Attribute> attributes() {
    std::vector<Attribute> out;
    lexer_.expect_symbol('<');
    std::unordered_set<std::string_view> names;
    do {
      const Token name = lexer_.peek();
      out.push_back(attribute(lexer_.expect_name("an attribute's name")));
      if (!names.insert(out.back().name).second) {
        lexer_.fail_at(name, "this attribute is defined twice");
      }
    } while (lexer_.take_symbol(','));
    lexer_.expect_symbol('>');
    return out;
  }

  Attribute attribute(std::string_view name) {
    Attribute out;
    out.name = name;
    Kind declared = Kind::other;
    const Token place = lexer_.peek();
    if (lexer_.take_symbol(':')) declared = annotation();
    lexer_.expect_symbol('=');
    if (lexer_.take_symbol('@')) {
      out.reference = lexer_.expect_name("the function's attribute");
      return out;
    }
    if (lexer_.take_symbol('['))
      out.value = list(declared);
    else
      out.value = single(declared);
    if (declared != Kind::other && out.kind() != declared) {
      lexer_.fail_at(place, fmt::format("the attribute is declared {}, but its value is {}",
                                        to_string(declared), to_string(out.kind())));
    }
    return out;
  }

  Kind annotation() {
    const Token word = lexer_.peek();
    lexer_.expect_word("an attribute's type");
    for (const KindName& entry : kKindNames) {
      if (entry.word == word.text) return entry.kind;
    }
    lexer_.fail_at(word, fmt::format("'{}' is not an attribute type", escape(word.text)));
  }

  // `kind` is the annotated type. With FLOAT, integers become floats.
  Attribute::Value single(Kind kind) {
    const Token token = lexer_.peek();
    switch (token.kind) {
      case Word::text:
        return lexer_.next().text;
      case Word::integer:
        if (kind != Kind::number) return lexer_.expect_integer("a number");
        return lexer_.expect_float("a number");
      case Word::number:
        return lexer_.expect_float("a number");
      case Word::word:
        return word_value();
      default:
        lexer_.fail_expected("an attribute's value");
    }
  }

  // A tensor, a type, inf or nan, or a graph.
  Attribute::Value word_value() {
    const Token word = lexer_.peek();
    if (is_type_word(word.text)) {
      ValueType type = parse_type(lexer_);
      const Word next = lexer_.peek().kind;
      const bool has_name = next == Word::word || next == Word::text;
      if (!has_name && !lexer_.at_symbol('{') && !lexer_.at_symbol('=')) {
        return std::make_shared<const ValueType>(std::move(type));
      }
      const std::string_view name = has_name ? lexer_.next().text : std::string_view();
      (void)lexer_.take_symbol('=');
      return std::make_shared<const TensorData>(parse_tensor(lexer_, type, name, source_));
    }
    (void)lexer_.next();
    if (lexer_.at_symbol('(')) return std::make_shared<Graph>(graph(word.text));
    if (word.text == "inf" || word.text == "infinity") return HUGE_VALF;
    if (word.text == "nan") return std::numeric_limits<float>::quiet_NaN();
    lexer_.fail_at(word, fmt::format("'{}' is not an attribute value", escape(word.text)));
  }

  Attribute::Value list(Kind declared) {
    if (lexer_.take_symbol(']')) return empty_list(declared);
    Attribute::Value out;
    do {
      const Token place = lexer_.peek();
      const bool as_number = declared == Kind::numbers || out.index() == index(Kind::numbers);
      append(out, single(as_number ? Kind::number : Kind::other), place);
    } while (lexer_.take_symbol(','));
    lexer_.expect_symbol(']');
    return out;
  }

  static constexpr size_t index(Kind kind) { return static_cast<size_t>(kind); }

  Attribute::Value empty_list(Kind declared) const {
    switch (declared) {
      case Kind::numbers:
        return std::vector<float>();
      case Kind::integers:
        return std::vector<int64_t>();
      case Kind::texts:
        return std::vector<std::string_view>();
      case Kind::tensors:
        return std::vector<std::shared_ptr<const TensorData>>();
      case Kind::graphs:
        return std::vector<std::shared_ptr<Graph>>();
      default:
        lexer_.fail_at(lexer_.peek(), "an empty list needs its type, such as axes: ints = []");
    }
  }

  void append(Attribute::Value& list, Attribute::Value item, const Token& place) const {
    const bool fits = std::visit(
        [&]<class T>(T& value) {
          if constexpr (std::is_constructible_v<Attribute::Value, std::vector<T>>) {
            if (list.index() == 0) list = std::vector<T>();
            auto* items = std::get_if<std::vector<T>>(&list);
            if (items != nullptr) items->push_back(std::move(value));
            return items != nullptr;
          }
          return false;
        },
        item);
    if (!fits) lexer_.fail_at(place, "this value has another type than the list's first");
  }

  Function function() {
    Function out;
    if (lexer_.take_symbol('<')) {
      do {
        function_property(out);
      } while (lexer_.take_symbol(','));
      lexer_.expect_symbol('>');
    }
    out.name = lexer_.expect_name("a function's name");
    if (lexer_.take_symbol('<')) {
      do {
        const std::string_view name = lexer_.expect_name("an attribute's name");
        if (lexer_.at_symbol('=') || lexer_.at_symbol(':'))
          out.defaults.push_back(attribute(name));
        else
          out.attributes.push_back(name);
      } while (lexer_.take_symbol(','));
      lexer_.expect_symbol('>');
    }
    Graph signature;  // the types of a function's values are unused
    value_infos('(', ')', signature.inputs, signature, true);
    lexer_.expect_arrow();
    value_infos('(', ')', signature.outputs, signature, true);
    if (lexer_.at_symbol('<')) value_infos('<', '>', signature.value_infos, signature, true);
    for (const ValueInfo& info : signature.inputs) out.inputs.push_back(info.name);
    for (const ValueInfo& info : signature.outputs) out.outputs.push_back(info.name);
    out.nodes = nodes();
    return out;
  }

  void function_property(Function& out) {
    const Token key = property_key();
    if (key.text == "opset_import")
      out.imports = imports();
    else if (key.text == "domain")
      out.domain = canonical_domain(lexer_.expect_text("a domain"));
    else if (key.text == "overload")
      out.overload = lexer_.expect_text("a quoted overload");
    else if (key.text == "doc_string")
      (void)lexer_.expect_text("a string");
    else
      lexer_.fail_at(key, fmt::format("a function has no property '{}'", escape(key.text)));
  }

  TextLexer lexer_;
  const TensorSource& source_;
  int depth_ = 0;
};

}  // namespace

Model parse_text_model(std::string_view text, std::string_view origin, const TensorSource& source) {
  check(text.size() <= kMaxText, ErrorKind::invalid_model,
        "textual model '{}' has {} bytes, expected at most {}", escape(origin), text.size(),
        kMaxText);
  auto memory = std::make_shared<TextMemory>();
  memory->file = source.owner;
  if (source.owner == nullptr) text = memory->source = text;
  const TensorSource shared{memory, source.folder};
  Model model;
  model.origin = origin;
  model.owners.push_back(memory);
  Parser(text, origin, *memory, shared).model(model);
  check(model.ir_version > 0, ErrorKind::invalid_model, "'{}' has ir_version {}, expected 1 to {}",
        escape(origin), model.ir_version, kIrVersion);
  make_well_formed(model);
  return model;
}

}  // namespace lathe::onnx
