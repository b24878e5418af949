// SPDX-License-Identifier: MIT
// The two halves of a conversion; for convert.cpp only.
#pragma once

#include "tensor/convert.h"

namespace lathe {

// f32, f64, i32, i64 or u64: holds every value of `type` exactly. Complex types have their parts'.
ElementType wide_type(ElementType type);
// Widens `count` elements to an aligned array of wide_type(from).
void widen(ElementType from, const void* src, void* out, int64_t count);
// Narrows an aligned array of the wide type `wide`.
void narrow(ElementType to, void* dst, ElementType wide, const void* in, int64_t count,
            const ConvertOptions& options);

}  // namespace lathe
