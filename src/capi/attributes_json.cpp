// SPDX-License-Identifier: MIT
#include "capi/attributes_json.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "ir/parse.h"

namespace lathe::capi {
namespace {

using Json = nlohmann::ordered_json;

// Reads one attribute; errors name it.
class AttributeReader {
 public:
  AttributeReader(const Op& op, std::string_view name, Program& program)
      : op_(op), name_(name), program_(program) {}

  Attribute read(const Json& value, AttributeKind kind) const {
    switch (kind) {
      case AttributeKind::integer:
        return integer(value);
      case AttributeKind::number:
        return number(value);
      case AttributeKind::boolean:
        if (!value.is_boolean()) wrong(value, "true or false");
        return value.get<bool>();
      case AttributeKind::text:
        return text(value, "a string");
      case AttributeKind::element_type: {
        const std::string name = text(value, "the name of an element type");
        const std::optional<ElementType> type = element_type_from_name(name);
        if (!type) wrong(value, "the name of an element type");
        return *type;
      }
      case AttributeKind::integers:
        return list<Integers>(value, [&](const Json& item) { return integer(item); });
      case AttributeKind::numbers:
        return list<Numbers>(value, [&](const Json& item) { return number(item); });
      case AttributeKind::texts:
        return list<Texts>(value, [&](const Json& item) { return text(item, "strings"); });
      case AttributeKind::dims:
        return list<std::vector<Dim>>(value, [&](const Json& item) { return dim(item); });
      case AttributeKind::type:
        return type_from_text(text(value, "a type"), program_, false);
    }
    fail(ErrorKind::internal, "attribute kind {} cannot be read", static_cast<int>(kind));
  }

 private:
  [[noreturn]] void wrong(const Json& value, std::string_view expected) const {
    fail(ErrorKind::invalid_argument, "{}: attribute '{}' is {}, expected {}", op_.name,
         escape(name_), escape(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
         expected);
  }
  int64_t integer(const Json& value) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
    if (!fits) wrong(value, "an integer of 64 bits");
    return value.get<int64_t>();
  }
  double number(const Json& value) const {
    if (value.is_number()) return value.get<double>();
    if (value == "inf") return INFINITY;
    if (value == "-inf") return -INFINITY;
    if (value == "nan") return NAN;
    wrong(value, "a number");
  }
  std::string text(const Json& value, std::string_view expected) const {
    if (!value.is_string()) wrong(value, expected);
    return value.get<std::string>();
  }
  Dim dim(const Json& value) const {
    if (value.is_number()) return Dim(integer(value));
    return Dim::parse(text(value, "integers and expressions"),
                      [&](std::string_view name) { return program_.find_symbol(name); });
  }
  template <class List, class F>
  List list(const Json& value, F&& item) const {
    List out;
    if (!value.is_array()) {
      out.push_back(item(value));
      return out;
    }
    for (const Json& each : value) out.push_back(item(each));
    return out;
  }

  const Op& op_;
  std::string_view name_;
  Program& program_;
};

Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace

std::string_view kind_name(AttributeKind kind) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"integer", "number", "boolean", "text", "element_type",
                                       "integers", "numbers", "texts", "dims", "type"});
  return kNames[static_cast<size_t>(kind)];
}

Json parse_argument(std::string_view json, std::string_view what) {
  Json parsed = Json::parse(json.begin(), json.end(), nullptr, false);
  check(!parsed.is_discarded(), ErrorKind::invalid_argument, "{} is not valid JSON: '{}'", what,
        escape(json));
  return parsed;
}

Type type_from_text(std::string_view text, Program& program, bool declares) {
  try {
    return parse_type(text, program, declares);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_model) throw;
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' is not a type: {}", escape(text), error.message()));
  }
}

Attributes attributes_from_json(std::string_view json, const Op& op, Program& program) {
  Attributes out;
  if (json.empty()) return out;
  const Json parsed = parse_argument(json, fmt::format("{}: the text of attributes", op.name));
  check(parsed.is_object(), ErrorKind::invalid_argument, "{}: the attributes are a {}", op.name,
        parsed.type_name());
  for (const auto& [name, value] : parsed.items()) {
    const AttributeSpec* spec = op.find_attribute_spec(name);
    if (spec == nullptr) {
      std::vector<std::string_view> names;
      for (const AttributeSpec& known : op.attributes) names.push_back(known.name);
      fail(ErrorKind::invalid_argument, "{}: unknown attribute '{}'{}", op.name, escape(name),
           did_you_mean(name, names));
    }
    if (value.is_null()) continue;
    out.emplace_back(name, AttributeReader(op, name, program).read(value, spec->kind));
  }
  std::ranges::sort(out, {}, [](const auto& entry) { return entry.first; });
  return out;
}

Json to_json(const Attribute& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, double>) {
          return number_json(held);
        } else if constexpr (std::is_same_v<T, ElementType>) {
          return std::string(info(held).name);
        } else if constexpr (std::is_same_v<T, Type>) {
          return held.to_string();
        } else if constexpr (std::is_same_v<T, Numbers>) {
          Json list = Json::array();
          for (const double number : held) list.push_back(number_json(number));
          return list;
        } else if constexpr (std::is_same_v<T, std::vector<Dim>>) {
          Json list = Json::array();
          for (const Dim& dim : held) {
            const std::optional<int64_t> constant = dim.constant();
            list.push_back(constant ? Json(*constant) : Json(dim.to_string()));
          }
          return list;
        } else {
          return held;
        }
      },
      static_cast<const std::variant<int64_t, double, bool, std::string, ElementType, Integers,
                                     Numbers, Texts, std::vector<Dim>, Type>&>(value));
}

Json to_json(const Attributes& attributes) {
  Json out = Json::object();
  for (const auto& [name, value] : attributes) out[name] = to_json(value);
  return out;
}

}  // namespace lathe::capi
