// SPDX-License-Identifier: MIT
// Operators of ai.onnx.ml on labels and maps.
#include <algorithm>
#include <numeric>

#include "import/onnx/operators/ml.h"
#include "import/onnx/tensor_proto.h"

namespace lathe::onnx {
namespace {

Integers counting(size_t count) {
  Integers out(count);
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

Value* text_scalar(NodeImport& c, const std::string& text) { return ml_texts(c, {text}); }

// Maps strings to these integers, or integers to the strings.
void map_labels(NodeImport& c, const Texts& texts, const Integers& integers) {
  const int64_t number = c.integer("default_int64", -1);
  const std::string text(c.text("default_string", "_Unused"));
  c.check(texts.size() == integers.size(), "{} strings for {} integers", texts.size(),
          integers.size());
  Value* strings = ml_texts(c, texts);
  Value* numbers = c.b.integers(integers);
  c.out(0, c.element(0) == ElementType::string
               ? c.b("lookup", {c.in(0), strings, numbers, c.b.integers({number})})
               : c.b("lookup", {c.in(0), numbers, strings, text_scalar(c, text)}));
}

// The spellings of a list; the names outlive the import.
struct LabelListNames {
  std::string_view tensor, int64s, strings, floats;
};
constexpr LabelListNames kKeys{"keys_tensor", "keys_int64s", "keys_strings", "keys_floats"};
constexpr LabelListNames kValues{"values_tensor", "values_int64s", "values_strings",
                                 "values_floats"};

// The one list that has elements.
Tensor list_attribute(NodeImport& c, const LabelListNames& names) {
  std::vector<Tensor> lists;
  if (c.has_attribute(names.tensor)) {
    lists.push_back(to_tensor(c.tensor(names.tensor)));
    c.check(lists.back().rank() == 1, "{} has rank {}, expected 1", names.tensor,
            lists.back().rank());
  }
  const auto add = [&](ElementType type, const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    if (values.empty()) return;
    lists.emplace_back(type, Dims{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), lists.back().template as<T>());
  };
  add(ElementType::i64, c.integers(names.int64s, Integers{}));
  add(ElementType::string, c.texts(names.strings, Texts{}));
  const Numbers numbers = c.numbers(names.floats, Numbers{});
  add(ElementType::f32, std::vector<float>(numbers.begin(), numbers.end()));
  c.check(lists.size() == 1, "{} of {}, {}, {} and {} have elements, expected one", lists.size(),
          names.tensor, names.int64s, names.strings, names.floats);
  return lists.front();
}

Tensor reversed(const Tensor& list) {
  const int64_t count = list.count();
  if (count == 0) return list;
  const int64_t bytes =
      list.type() == ElementType::string ? int64_t{sizeof(std::string)} : bytes_for(list.type(), 1);
  char* last = static_cast<char*>(list.data()) + (count - 1) * bytes;
  return Tensor(list.type(), {count}, {-1}, last, list.owner()).dense();
}

// The default for values of this type, with one element.
Value* default_value(NodeImport& c, ElementType type) {
  const int64_t integer = c.integer("default_int64", -1);
  const double number = c.number("default_float", -0.0);
  const std::string text(c.text("default_string", "_Unused"));
  if (c.has_attribute("default_tensor")) {
    const Tensor value = to_tensor(c.tensor("default_tensor"));
    c.check(value.count() == 1 && value.type() == type,
            "default_tensor is {}, expected one element of {}",
            to_string(value.type(), value.dims()), to_string(type));
    return c.b.literal(value);
  }
  if (type == ElementType::string) return text_scalar(c, text);
  return is_floating(type) ? c.b.scalar(type, number) : c.b.cast(c.b.integers({integer}), type);
}

}  // namespace

void import_category_mapper(NodeImport& c) {
  map_labels(c, c.texts("cats_strings"), c.integers("cats_int64s"));
}

void import_label_encoder_1(NodeImport& c) {
  const Texts classes = c.texts("classes_strings");
  map_labels(c, classes, counting(classes.size()));
}

void import_label_encoder(NodeImport& c) {
  Tensor keys = list_attribute(c, kKeys);
  Tensor values = list_attribute(c, kValues);
  c.check(keys.count() == values.count(), "{} keys for {} values", keys.count(), values.count());
  Value* missing = default_value(c, values.type());
  // Since version 4 the last of repeated keys counts; before, the first, as in ONNX Runtime.
  if (c.version < 4) {
    keys = reversed(keys);
    values = reversed(values);
  }
  c.out(0, c.b("lookup", {c.in(0), c.b.literal(keys), c.b.literal(values), missing}));
}

void import_cast_map(NodeImport& c) {
  const std::string_view to = c.text("cast_to", "TO_FLOAT");
  const std::string_view form = c.text("map_form", "DENSE");
  const int64_t size = c.integer("max_map", 1);
  constexpr int64_t kMost = int64_t{1} << 22;
  c.check(to == "TO_FLOAT" || to == "TO_STRING" || to == "TO_INT64",
          "cast_to is '{}', expected TO_FLOAT, TO_STRING or TO_INT64", escape(to));
  c.check(form == "DENSE" || form == "SPARSE", "map_form is '{}', expected DENSE or SPARSE",
          escape(form));
  const ElementType type = to == "TO_FLOAT"    ? ElementType::f32
                           : to == "TO_STRING" ? ElementType::string
                                               : ElementType::i64;
  Instruction* items = c.b.add("map_items", {c.in(0)});
  Value* values = c.b.cast(items->result(1), type);
  if (form == "SPARSE") {
    c.check(size > 0 && size <= kMost, "max_map is {}, expected 1 to {}", size, kMost);
    Value* missing = type == ElementType::string ? text_scalar(c, "0.f") : c.b.scalar(type, 0);
    Value* places = c.b.integers(counting(static_cast<size_t>(size)));
    values = c.b("lookup", {places, items->result(0), values, missing});
  }
  c.out(0, c.b("unsqueeze", {values, c.b.integers({0})}));
}

void import_dict_vectorizer(NodeImport& c) {
  const Labels vocabulary = ml_labels(c, "int64_vocabulary", "string_vocabulary");
  Instruction* items = c.b.add("map_items", {c.in(0)});
  const ElementType type = items->result(1)->type().element;
  Value* missing = type == ElementType::string ? text_scalar(c, "") : c.b.scalar(type, 0);
  Value* values = c.b("lookup", {vocabulary.values, items->result(0), items->result(1), missing});
  c.out(0, c.b("unsqueeze", {values, c.b.integers({0})}));
}

void import_zip_map(NodeImport& c) {
  const Labels labels = ml_labels(c, "classlabels_int64s", "classlabels_strings");
  c.out(0, c.b("zip_map", {c.in(0), labels.values}));
}

}  // namespace lathe::onnx
