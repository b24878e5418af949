// SPDX-License-Identifier: MIT
#include "base/in_file.h"

#include <string_view>

namespace lathe {

void note_file(Error& error, const std::string& file) {
  const std::string name = escape(file);
  if (std::string_view(error.what()).find(name) == std::string_view::npos) {
    error.note(fmt::format("in {}", name));
  }
}

}  // namespace lathe
