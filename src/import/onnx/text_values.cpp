// SPDX-License-Identifier: MIT
#include "import/onnx/text_values.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "import/onnx/external_data.h"

namespace lathe::onnx {
namespace {

struct TypeName {
  std::string_view word;
  ElementType type;
};

constexpr std::array kTypeNames{
    TypeName{"float", ElementType::f32},
    TypeName{"double", ElementType::f64},
    TypeName{"float16", ElementType::f16},
    TypeName{"bfloat16", ElementType::bf16},
    TypeName{"float8e4m3fn", ElementType::f8e4m3fn},
    TypeName{"float8e4m3fnuz", ElementType::f8e4m3fnuz},
    TypeName{"float8e5m2", ElementType::f8e5m2},
    TypeName{"float8e5m2fnuz", ElementType::f8e5m2fnuz},
    TypeName{"float8e8m0", ElementType::f8e8m0},
    TypeName{"float4e2m1", ElementType::f4e2m1},
    TypeName{"int2", ElementType::i2},
    TypeName{"int4", ElementType::i4},
    TypeName{"int8", ElementType::i8},
    TypeName{"int16", ElementType::i16},
    TypeName{"int32", ElementType::i32},
    TypeName{"int64", ElementType::i64},
    TypeName{"uint2", ElementType::u2},
    TypeName{"uint4", ElementType::u4},
    TypeName{"uint8", ElementType::u8},
    TypeName{"uint16", ElementType::u16},
    TypeName{"uint32", ElementType::u32},
    TypeName{"uint64", ElementType::u64},
    TypeName{"bool", ElementType::boolean},
    TypeName{"complex64", ElementType::c64},
    TypeName{"complex128", ElementType::c128},
    TypeName{"string", ElementType::string},
};
constexpr std::array<std::string_view, 5> kContainers{"seq", "map", "optional", "sparse_tensor",
                                                      "opaque"};

std::optional<ElementType> element_of(std::string_view word) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.word == word) return entry.type;
  }
  return std::nullopt;
}

std::vector<Extent> parse_extents(TextLexer& lexer) {
  std::vector<Extent> out;
  do {
    if (out.size() == static_cast<size_t>(kMaxRank)) {
      lexer.fail_at(lexer.peek(), fmt::format("a rank above {} is not supported", kMaxRank));
    }
    Extent& extent = out.emplace_back();
    if (lexer.take_symbol('?')) continue;
    if (lexer.peek().kind == TextLexer::Kind::integer) {
      extent.value = lexer.expect_integer("a size");
    } else {
      extent.symbol = lexer.expect_name("a size: a number, a name or ?");
    }
  } while (lexer.take_symbol(','));
  return out;
}

ValueType parse_container(TextLexer& lexer, const TextLexer::Token& word, int depth) {
  if (depth == kMaxGraphDepth)
    lexer.fail_at(word, fmt::format("types nest deeper than {} levels", kMaxGraphDepth));
  ValueType out;
  lexer.expect_symbol('(');
  if (word.text == "map") {
    out.kind = ValueType::Kind::map;
    out.element = element_of(lexer.expect_word("the map's key type"));
    if (!out.element) lexer.fail_at(word, "the map's key type is not an element type");
    lexer.expect_symbol(',');
  } else {
    out.kind = word.text == "seq" ? ValueType::Kind::sequence : ValueType::Kind::optional;
  }
  out.item = std::make_shared<const ValueType>(parse_type(lexer, depth + 1));
  lexer.expect_symbol(')');
  return out;
}

// Stores numbers as the bytes of a tensor.
template <class T>
void append_value(std::vector<std::byte>& bytes, T value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

void parse_elements(TextLexer& lexer, TensorData& tensor, std::vector<int64_t>& integers,
                    std::vector<std::byte>& reals) {
  do {
    switch (tensor.type) {
      case ElementType::string:
        tensor.strings.push_back(lexer.expect_text("a string"));
        break;
      case ElementType::f32:
      case ElementType::c64:
        append_value(reals, lexer.expect_float("a number"));
        break;
      case ElementType::f64:
      case ElementType::c128:
        append_value(reals, lexer.expect_double("a number"));
        break;
      case ElementType::u64:
        integers.push_back(static_cast<int64_t>(lexer.expect_unsigned("an integer")));
        break;
      default:
        integers.push_back(lexer.expect_integer(
            is_floating(tensor.type) ? "an integer: the element's bit pattern" : "an integer"));
    }
  } while (lexer.take_symbol(','));
}

// Elements below 8 bits: one number each in the text, packed in the tensor.
void pack(ElementType type, std::vector<int64_t>& elements) {
  const int bits = info(type).bits;
  const auto per_byte = static_cast<size_t>(8 / bits);
  std::vector<int64_t> bytes((elements.size() + per_byte - 1) / per_byte);
  for (size_t i = 0; i < elements.size(); ++i) {
    bytes[i / per_byte] |= (elements[i] & ((1 << bits) - 1))
                           << (bits * static_cast<int>(i % per_byte));
  }
  elements = std::move(bytes);
}

void check_values(const TextLexer& lexer, const TextLexer::Token& place, const TensorData& tensor,
                  size_t found, int64_t count) {
  const bool is_complex = info(tensor.type).cls == ElementClass::complex;
  const int64_t expected = is_complex ? 2 * count : count;
  if (static_cast<int64_t>(found) == expected) return;
  lexer.fail_at(place, fmt::format("{} needs {} numbers or strings, found {}",
                                   to_string(tensor.type, tensor.dims), expected, found));
}

void parse_inline(TextLexer& lexer, TensorData& tensor, int64_t count) {
  const TextLexer::Token place = lexer.peek();
  std::vector<int64_t> integers;
  std::vector<std::byte> reals;
  lexer.expect_symbol('{');
  if (!lexer.at_symbol('}')) parse_elements(lexer, tensor, integers, reals);
  lexer.expect_symbol('}');
  if (tensor.type == ElementType::string) {
    check_values(lexer, place, tensor, tensor.strings.size(), count);
  } else if (reals.empty()) {
    const bool is_given_packed =  // as in TensorProto
        is_packed(tensor.type) &&
        static_cast<int64_t>(integers.size()) == bytes_for(tensor.type, count);
    if (!is_given_packed) check_values(lexer, place, tensor, integers.size(), count);
    if (!is_given_packed && is_packed(tensor.type)) pack(tensor.type, integers);
    set_integers(tensor, integers);
  } else {
    const bool is_wide = tensor.type == ElementType::f64 || tensor.type == ElementType::c128;
    check_values(lexer, place, tensor, reals.size() / (is_wide ? 8 : 4), count);
    auto owned = std::make_shared<std::vector<std::byte>>(std::move(reals));
    tensor.bytes = *owned;
    tensor.owner = std::move(owned);
  }
}

}  // namespace

bool is_type_word(std::string_view word) {
  return element_of(word).has_value() ||
         std::find(kContainers.begin(), kContainers.end(), word) != kContainers.end();
}

ValueType parse_type(TextLexer& lexer, int depth) {
  const TextLexer::Token word = lexer.peek();
  lexer.expect_word("a type");
  ValueType out;
  out.element = element_of(word.text);
  if (!out.element) {
    if (word.text != "seq" && word.text != "map" && word.text != "optional") {
      lexer.fail_at(word, fmt::format("type '{}' is not supported", escape(word.text)));
    }
    return parse_container(lexer, word, depth);
  }
  out.kind = ValueType::Kind::tensor;
  // "float" is a scalar, "float[]" has unknown rank.
  if (!lexer.take_symbol('[')) {
    out.extents.emplace();
  } else if (!lexer.take_symbol(']')) {
    out.extents = parse_extents(lexer);
    lexer.expect_symbol(']');
  }
  return out;
}

TensorData parse_tensor(TextLexer& lexer, const ValueType& type, std::string_view name,
                        const TensorSource& source) {
  const TextLexer::Token place = lexer.peek();
  if (type.kind != ValueType::Kind::tensor || !type.extents) {
    lexer.fail_at(place, "a tensor's type needs its shape, such as float[2, 3]");
  }
  TensorData tensor;
  tensor.name = name;
  tensor.type = *type.element;
  tensor.owner = source.owner;
  for (const Extent& extent : *type.extents) {
    if (extent.value < 0) lexer.fail_at(place, "a tensor's sizes must be numbers");
    tensor.dims.push_back(extent.value);
  }
  const int64_t count = checked_count(tensor.type, tensor.dims, name);
  if (!lexer.take_symbol('[')) {
    parse_inline(lexer, tensor, count);
    return tensor;
  }
  StringPairs pairs;
  do {
    const std::string_view key = lexer.expect_text("a key of external data, in quotes");
    lexer.expect_symbol(':');
    pairs.emplace_back(key, lexer.expect_text("a quoted value"));
  } while (lexer.take_symbol(','));
  lexer.expect_symbol(']');
  tensor.external = parse_external_data(pairs, name, source.folder);
  return tensor;
}

}  // namespace lathe::onnx
