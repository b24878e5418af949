// SPDX-License-Identifier: MIT
// Errors name the file in which they were found.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace lathe {

// Adds "in FILE", unless the error names it or a file in it.
void note_file(Error& error, const std::string& file);

template <class F>
auto in_file(const std::string& file, F&& read) {
  try {
    return std::forward<F>(read)();
  } catch (Error& error) {
    note_file(error, file);
    throw;
  }
}

}  // namespace lathe
