// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Recognises layer, RMS and group normalisations that exporters write out as arithmetic.
extern const Pass raise_normalizations;

}  // namespace lathe
