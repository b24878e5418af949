// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Values that all readers round to bf16 before they compute are stored in bf16: results keep their
// bits. Readers are products and attention whose compute type is bf16.
extern const Pass narrow_rounded;

}  // namespace lathe
