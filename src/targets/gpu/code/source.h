// SPDX-License-Identifier: MIT
// Device code as text.
#pragma once

#include <string>
#include <string_view>

namespace lathe::gpu {

// A file of kernels/, embedded when the library is built; Internal if there is none.
std::string_view kernel_text(std::string_view file);

// One unit of device code, without the alias header; its kernels take one structure of arguments.
struct Source {
  std::string name;  // of the kernel: "add_relu"
  std::string text;
};

}  // namespace lathe::gpu
