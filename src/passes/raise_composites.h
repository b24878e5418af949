// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Recognises activations, softmax and poolings that exporters write out as arithmetic.
extern const Pass raise_composites;

}  // namespace lathe
