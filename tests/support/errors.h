// SPDX-License-Identifier: MIT
// The error of an action.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace lathe {

// "InvalidModel: message and notes", or "no error".
template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    return fmt::format("{}: {}", error_kind_info(error.kind()).name, error.what());
  }
  return "no error";
}

}  // namespace lathe
