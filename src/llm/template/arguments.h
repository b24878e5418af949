// SPDX-License-Identifier: MIT
// Arguments bound to parameters as Python does it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

// The value of each parameter, missing for those not given; the first `required` must be.
std::vector<Value> bind(const Arguments& arguments, std::string_view function,
                        std::initializer_list<std::string_view> parameters, size_t required);
// The same without names: for Python's own functions that take none.
std::vector<Value> bind_positional(const Arguments& arguments, std::string_view function,
                                   size_t required, size_t most);

// One argument as a type, with TypeError for others; the default where it is missing.
int64_t integer_argument(const Value& value, int64_t otherwise);
int64_t index_argument(const Value& value);  // operator.index()
// None counts as missing.
int64_t optional_integer(const Value& value, int64_t otherwise);
std::string_view text_argument(const Value& value, std::string_view otherwise = {});
bool truth_argument(const Value& value, bool otherwise);

}  // namespace lathe::templates
