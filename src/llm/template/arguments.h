// SPDX-License-Identifier: MIT
// Binds arguments to parameters by Python's rules.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

// Returns each parameter's value, or missing. The first `required` parameters must be present.
std::vector<Value> bind(const Arguments& arguments, std::string_view function,
                        std::initializer_list<std::string_view> parameters, size_t required);
// Binds positional arguments only, for builtin functions without keyword arguments.
std::vector<Value> bind_positional(const Arguments& arguments, std::string_view function,
                                   size_t required, size_t most);

// Converts one argument; TypeError for other types; the default if it is missing.
int64_t integer_argument(const Value& value, int64_t otherwise);
int64_t index_argument(const Value& value);  // operator.index()
// None counts as missing.
int64_t optional_integer(const Value& value, int64_t otherwise);
std::string_view text_argument(const Value& value, std::string_view otherwise = {});
bool truth_argument(const Value& value, bool otherwise);

}  // namespace lathe::templates
