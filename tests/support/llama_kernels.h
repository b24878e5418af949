// SPDX-License-Identifier: MIT
// Programs of one kernel each at the shapes of Llama-3.1-8B.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/box.h"

namespace lathe::test {

struct KernelProgram {
  std::string name;
  std::string program;               // as text
  std::map<size_t, Box> given = {};  // inputs that are not zeros
  std::string kernel = "";           // that is judged; empty: each
  bool printed_only = false;
  bool fragments = false;  // conflicts of shared memory are those of their emulation: printed only
};

std::vector<KernelProgram> llama_kernels();

}  // namespace lathe::test
