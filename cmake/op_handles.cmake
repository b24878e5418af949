# SPDX-License-Identifier: MIT
# Writes <build>/generated/ir/ops.h: `ops::NAME` for each file of src/ops that registers an op, which
# bears the op's name. A name that C++ reserves gets a trailing underscore: `ops::if_`.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cpp)
set(reserved and if not or xor)
set(count 0)
foreach(source ${sources})
  file(STRINGS ${source} registration REGEX "^static const Register " LIMIT_COUNT 1)
  if(registration)
    cmake_path(GET source STEM name)
    string(APPEND names "    \"${name}\",\n")
    set(suffix)
    if(name IN_LIST reserved)
      set(suffix _)
    endif()
    string(APPEND handles "inline constexpr const Op& ${name}${suffix} = records[${count}];\n")
    math(EXPR count "${count} + 1")
  endif()
endforeach()
# Written only if it changes.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/ir/ops.h @ONLY CONTENT [[
// SPDX-License-Identifier: MIT
// Generated from the files of src/ops. An op's record is filled in while the program starts; its
// address is valid from the first instruction on.
#pragma once

#include <string_view>

#include "ir/op.h"

namespace lathe::ops {

inline constexpr int kCount = @count@;
extern Op records[kCount];
// Sorted, as the records.
inline constexpr std::string_view kNames[kCount] = {
@names@};

@handles@
}  // namespace lathe::ops
]])
