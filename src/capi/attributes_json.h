// SPDX-License-Identifier: MIT
// Attributes of ops as JSON: numbers, booleans, texts and lists of them; element types, dims and
// types as text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ir/op.h"
#include "ir/program.h"

namespace lathe::capi {

// InvalidArgument for another value or kind. Dims and types may name symbols of the program.
Attributes attributes_from_json(std::string_view json, const Op& op, Program& program);
// "integer", "number", "boolean", "text", "element_type", "integers", "numbers", "texts", "dims",
// "type".
std::string_view kind_name(AttributeKind kind);
nlohmann::ordered_json to_json(const Attribute& value);
nlohmann::ordered_json to_json(const Attributes& attributes);
// The parsed text of an argument; InvalidArgument for invalid JSON.
nlohmann::ordered_json parse_argument(std::string_view json, std::string_view what);
// The type that a text states; InvalidArgument. New names become bound symbols if `declares`.
Type type_from_text(std::string_view text, Program& program, bool declares);

}  // namespace lathe::capi
