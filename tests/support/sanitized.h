// SPDX-License-Identifier: MIT
// Whether AddressSanitizer watches, under which programs take several times as long.
#pragma once

namespace lathe::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LATHE_ADDRESS_SANITIZED
#endif
#endif

#ifdef LATHE_ADDRESS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lathe::test
