// SPDX-License-Identifier: MIT
#include <charconv>
#include <limits>

#include "ir/literal_text.h"
#include "ir/text_parser.h"

namespace lathe {
namespace {

constexpr int kMaxTypeDepth = 16;  // sequences of optionals of sequences …

}  // namespace

ElementType TextParser::parse_element_type() {
  const Token word = lexer_.expect(TokenKind::word, "an element type");
  const std::optional<ElementType> type = element_type_from_name(word.text);
  if (!type) {
    std::vector<std::string_view> names;
    for (const ElementTypeInfo& known : element_types()) names.push_back(known.name);
    lexer_.fail_at(word.offset, fmt::format("unknown element type '{}'{}", escape(word.text, 60),
                                            did_you_mean(word.text, names)));
  }
  return *type;
}

Type TextParser::run_type(Program& program, bool declares) {
  struct Borrowed {
    std::unique_ptr<Program>& owner;
    ~Borrowed() { static_cast<void>(owner.release()); }
  };
  program_.reset(&program);
  const Borrowed borrowed{program_};
  declares_ = declares;
  Type type = parse_type();
  lexer_.expect(TokenKind::end, "the end of the text after the type");
  return type;
}

Type parse_type(std::string_view text, Program& program, bool declares) {
  const ParseOptions options{.file = "type"};
  return TextParser(text, options).run_type(program, declares);
}

Type TextParser::parse_type(int depth) {
  const Token first = lexer_.peek();
  if (depth == kMaxTypeDepth) {
    lexer_.fail_at(first.offset, fmt::format("more than {} nested types", kMaxTypeDepth));
  }
  if (first.is("seq") || first.is("opt") || first.is("map")) {
    lexer_.take();
    lexer_.expect("<", fmt::format("after '{}'", first.text));
    ElementType key = ElementType::i64;
    if (first.is("map")) {
      key = parse_element_type();
      lexer_.expect(",", "after a map's key type");
    }
    Type item = parse_type(depth + 1);
    lexer_.expect(">", "after the item's type");
    if (first.is("map")) return Type::map(key, std::move(item));
    return first.is("seq") ? Type::sequence(std::move(item)) : Type::optional(std::move(item));
  }
  const ElementType element = parse_element_type();
  lexer_.expect("[", "after the element type");
  if (lexer_.accept("*")) {
    lexer_.expect("]", "after '*'");
    return Type::unranked(element);
  }
  std::vector<Dim> dims = parse_dims("]");
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    lexer_.fail_at(first.offset, fmt::format("a type of rank {}, at most {} is supported",
                                             dims.size(), kMaxRank));
  }
  return Type::tensor(element, std::move(dims));
}

Dim TextParser::parse_dim() {
  const size_t offset = lexer_.position();
  const std::string_view text = lexer_.take_expression();
  try {
    return Dim::parse(text, [&](std::string_view name) {
      const SymbolRef known = program_->find_symbol(name);
      return known == nullptr && declares_ ? program_->add_symbol(name, SymbolKind::bound, Range{})
                                           : known;
    });
  } catch (const Error& error) {
    // The message ends with the offset inside the expression.
    constexpr std::string_view kAt = " at offset ";
    const std::string_view message = error.message();
    size_t inside = 0;
    const size_t at = message.rfind(kAt);
    if (at != std::string_view::npos) {
      std::from_chars(message.data() + at + kAt.size(), message.data() + message.size(), inside);
    }
    lexer_.fail_at(offset + inside, message.substr(0, at));
  }
}

std::vector<Dim> TextParser::parse_dims(std::string_view closing) {
  std::vector<Dim> dims;
  if (lexer_.accept(closing)) return dims;
  do dims.push_back(parse_dim());
  while (lexer_.accept(","));
  lexer_.expect(closing, "after the dims");
  return dims;
}

double TextParser::parse_number() {
  const Token token = lexer_.take();
  double value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [rest, status] = std::from_chars(token.text.data(), end, value);
  const bool is_named = token.is("inf") || token.is("nan");
  if (status != std::errc() || rest != end || (token.kind != TokenKind::number && !is_named)) {
    lexer_.fail_at(token.offset,
                   fmt::format("expected a number, found '{}'", escape(token.text, 60)));
  }
  return value;
}

template <class T, class F>
std::vector<T> TextParser::parse_list(F&& item) {
  std::vector<T> items;
  lexer_.expect("[", "before a list");
  if (lexer_.accept("]")) return items;
  do items.push_back(item());
  while (lexer_.accept(","));
  lexer_.expect("]", "after a list");
  return items;
}

Attribute TextParser::parse_attribute(AttributeKind kind) {
  const auto integer = [&] { return parse_integer("an integer"); };
  const auto text = [&] { return parse_string("a string in quotes"); };
  switch (kind) {
    case AttributeKind::integer:
      return integer();
    case AttributeKind::number:
      return parse_number();
    case AttributeKind::boolean: {
      const Token word = lexer_.expect(TokenKind::word, "true or false");
      if (!word.is("true") && !word.is("false")) {
        lexer_.fail_at(word.offset,
                       fmt::format("expected true or false, found '{}'", escape(word.text, 60)));
      }
      return word.is("true");
    }
    case AttributeKind::text:
      return text();
    case AttributeKind::element_type:
      return parse_element_type();
    case AttributeKind::integers:
      return parse_list<int64_t>(integer);
    case AttributeKind::numbers:
      return parse_list<double>([&] { return parse_number(); });
    case AttributeKind::texts:
      return parse_list<std::string>(text);
    case AttributeKind::dims: {
      lexer_.expect("dims", "before a list of dims");
      lexer_.expect("(", "after 'dims'");
      return parse_dims(")");
    }
    case AttributeKind::type: {
      lexer_.expect("type", "before a type");
      lexer_.expect("(", "after 'type'");
      Type type = parse_type();
      lexer_.expect(")", "after the type");
      return type;
    }
  }
  fail(ErrorKind::internal, "attribute kind {} cannot be read", static_cast<int>(kind));
}

LiteralRef TextParser::parse_literal() {
  const bool bindable = lexer_.accept("bindable");
  const size_t type_at = lexer_.position();
  const Type type = parse_type();
  Dims dims;
  for (int i = 0; type.is_ranked() && i < type.rank(); ++i) {
    const Dim& dim = (*type.dims)[static_cast<size_t>(i)];
    if (dim.constant().value_or(-1) >= 0) dims.push_back(*dim.constant());
  }
  if (!type.is_ranked() || static_cast<int>(dims.size()) != type.rank()) {
    lexer_.fail_at(type_at, fmt::format("a literal has constant dims, found {}", type.to_string()));
  }
  if (!lexer_.accept("{")) {
    const size_t offset = lexer_.position();
    const LiteralRef found = find_literal(type, offset);
    const Tensor& tensor = found->tensor;
    if (tensor.type() != type.element || tensor.dims() != dims) {
      lexer_.fail_at(type_at,
                     fmt::format("expected type {} of the literal, got {}", type.to_string(),
                                 to_string(tensor.type(), tensor.dims())));
    }
    if (found->bindable == bindable) return found;
    auto copy = std::make_shared<Literal>(*found);
    copy->bindable = bindable;
    return copy;
  }
  auto literal = std::make_shared<Literal>();
  literal->bindable = bindable;
  try {
    literal->tensor = parse_elements(lexer_, type.element, dims);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_model) throw;
    lexer_.fail_at(type_at, error.message());  // a size that overflows
  }
  lexer_.expect("}", "after the elements");
  return literal;
}

// A literal outside the text: #hash, or file "…" offset N.
LiteralRef TextParser::find_literal(const Type& type, size_t offset) {
  LiteralRef found;
  std::string what;
  if (lexer_.peek().kind == TokenKind::hash) {
    const Token token = lexer_.take();
    uint64_t hash = 0;
    const char* end = token.text.data() + token.text.size();
    const auto [rest, status] = std::from_chars(token.text.data() + 1, end, hash, 16);
    if (token.text.size() != 17 || status != std::errc() || rest != end) {
      lexer_.fail_at(offset, fmt::format("expected '#' and 16 hexadecimal digits, found '{}'",
                                         escape(token.text, 60)));
    }
    what = fmt::format("the literal {} in a side file", token.text);
    if (options_.literal_by_hash) found = options_.literal_by_hash(hash, type);
  } else {
    lexer_.expect("file", "or '{' or a hash after a literal's type");
    const std::string file = parse_string("a file name in quotes");
    lexer_.expect("offset", "after the file's name");
    const int64_t place = parse_integer("an offset");
    what = fmt::format("the literal at offset {} of '{}'", place, escape(file));
    if (place < 0) lexer_.fail_at(offset, fmt::format("offset {} is negative", place));
    if (options_.literal_in_file) found = options_.literal_in_file(file, place, type);
  }
  if (found == nullptr) lexer_.fail_at(offset, fmt::format("{} is not found", what));
  return found;
}

}  // namespace lathe
