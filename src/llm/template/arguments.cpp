// SPDX-License-Identifier: MIT
#include "llm/template/arguments.h"

#include <algorithm>

#include "llm/template/text.h"

namespace lathe::templates {

std::vector<Value> bind(const Arguments& arguments, std::string_view function,
                        std::initializer_list<std::string_view> parameters, size_t required) {
  const size_t count = parameters.size();
  if (arguments.positional.size() > count) {
    raise(Exception::type, "{}() takes {} positional arguments but {} were given", function, count,
          arguments.positional.size());
  }
  std::vector<Value> values = arguments.positional;
  values.resize(count, Value::missing());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      raise(Exception::type, "{}() got an unexpected keyword argument '{}'", function, name);
    }
    Value& place = values[static_cast<size_t>(found - parameters.begin())];
    if (!place.is_missing()) {
      raise(Exception::type, "{}() got multiple values for argument '{}'", function, name);
    }
    place = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values[i].is_missing()) {
      raise(Exception::type, "{}() missing 1 required positional argument: '{}'", function,
            parameters.begin()[i]);
    }
  }
  return values;
}

std::vector<Value> bind_positional(const Arguments& arguments, std::string_view function,
                                   size_t required, size_t most) {
  if (!arguments.named.empty()) {
    raise(Exception::type, "{}() takes no keyword arguments", function);
  }
  const size_t given = arguments.positional.size();
  if (given < required || given > most) {
    raise(Exception::type, "{}() takes {} argument(s) ({} given)", function,
          given < required ? required : most, given);
  }
  std::vector<Value> values = arguments.positional;
  values.resize(most, Value::missing());
  return values;
}

int64_t index_argument(const Value& value) {
  if (!value.is_integral()) {
    raise(Exception::type, "'{}' object cannot be interpreted as an integer", type_name(value));
  }
  return value.whole();
}

int64_t integer_argument(const Value& value, int64_t otherwise) {
  return value.is_missing() ? otherwise : index_argument(value);
}

int64_t optional_integer(const Value& value, int64_t otherwise) {
  return value.is_none() ? otherwise : integer_argument(value, otherwise);
}

std::string_view text_argument(const Value& value, std::string_view otherwise) {
  if (value.is_missing()) return otherwise;
  if (!value.is_string()) {
    raise(Exception::type, "argument must be str, not {}", type_name(value));
  }
  return value.text();
}

bool truth_argument(const Value& value, bool otherwise) {
  return value.is_missing() ? otherwise : is_true(value);
}

}  // namespace lathe::templates
