// SPDX-License-Identifier: MIT
// The two steps of a conversion; internal to convert.cpp.
#pragma once

#include "tensor/convert.h"

namespace lathe {

// f32, f64, i32, i64 or u64, which represents every value of `type` exactly; complex: of its parts.
ElementType wide_type(ElementType type);
// Widens `count` elements to an aligned array of `wide_type(from)`.
void widen(ElementType from, const void* src, void* out, int64_t count);
// Narrows `count` elements of an aligned array of the wide type `wide`.
void narrow(ElementType to, void* dst, ElementType wide, const void* in, int64_t count,
            const ConvertOptions& options);

}  // namespace lathe
