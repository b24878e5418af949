// SPDX-License-Identifier: MIT
#pragma once

#include "core.h"

namespace lathe_python {

struct Tokenizer {
  Handle<lathe_tokenizer> handle;
};

struct ChatTemplate {
  Handle<lathe_chat_template> handle;
};

}  // namespace lathe_python
