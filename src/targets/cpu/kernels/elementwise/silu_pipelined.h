// SPDX-License-Identifier: MIT
// silu of numbers in memory, two vectors at a time: the sums and the quotient of two stand among
// the products of the next two. Those are done by different ports, but the processor does not look
// so far ahead by itself: on Zen 4 a vector takes 15.6 cycles, 17 to 19 step by step for four to
// eight of them, at a limit of 14.
#pragma once

#include "targets/cpu/kernels/simd/simd_math.h"

namespace lathe::cpu {
namespace {

// The operations of sigmoid_each, one by one.
struct SiluPair {
  F32 x[2], k[2], t[2];

  template <int kStep>
  inline __attribute__((always_inline)) void multiply(const float* from) {
    constexpr int kTerms = sizeof(fits::kExp) / sizeof(float), kFirst = 6;
    static_assert(kFirst + kTerms == 12, "silu_pairs takes twelve steps");
    if constexpr (kStep == 0) {
      each(x, [&](int i) {
        return max(set1(-105.0F), from_bits(bits_of(load(from + i * kLanes)) | set1(INT32_MIN)));
      });
    } else if constexpr (kStep == 1) {
      each(k, [&](int i) { return x[i] * set1(fits::kLog2E); });
    } else if constexpr (kStep == 2) {
      each(k, [&](int i) { return k[i] + set1(kMagic); });
    } else if constexpr (kStep == 3) {
      each(k, [&](int i) { return k[i] - set1(kMagic); });
    } else if constexpr (kStep < kFirst) {
      each(x, [&](int i) { return fnma(k[i], set1(fits::kLn2[kStep - 4]), x[i]); });
    } else if constexpr (kStep == kFirst) {
      each(t, [&](int i) {
        return fma(set1(fits::kExp[kTerms - 1]), x[i], set1(fits::kExp[kTerms - 2]));
      });
    } else if constexpr (kStep < kFirst + kTerms - 1) {
      each(t,
           [&](int i) { return fma(t[i], x[i], set1(fits::kExp[kFirst + kTerms - 2 - kStep])); });
    } else {
      each(t, [&](int i) { return fma(x[i] * x[i], t[i], x[i]); });
    }
  }
  template <int kStep>
  inline __attribute__((always_inline)) void divide(const float* from, float* to) {
    const F32 one = set1(1.0F);
    if constexpr (kStep == 0) {
      each(t, [&](int i) { return t[i] + one; });
    } else if constexpr (kStep == 1) {
      each(t, [&](int i) {
        const I32 integer = bits_of(k[i] + set1(kMagic)) - bits_of(set1(kMagic));
        return scale(t[i], {x[i], integer, k[i]});
      });
    } else if constexpr (kStep == 2) {
      each(x, [&](int i) { return t[i] + one; });
    } else if constexpr (kStep == 3) {
      each(k, [&](int i) { return copysign(one, load(from + i * kLanes)); });
    } else if constexpr (kStep == 4) {
      each(t, [&](int i) { return max(k[i], t[i]); });
    } else if constexpr (kStep == 5) {
      each(t, [&](int i) { return t[i] / x[i]; });
    } else {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) store(to + i * kLanes, load(from + i * kLanes) * t[i]);
    }
  }

 private:
  static constexpr float kMagic = 0x1.8p+23F;
};

// Where a pair of vectors is, and where it goes.
struct SiluPlace {
  const float* from;
  float* to;
};
// Of some pairs, at least one; `place()` gives one after the other.
template <class Place>
inline __attribute__((always_inline)) void silu_pairs(int64_t pairs, Place&& place) {
  SiluPair done, next;
  const auto multiply = [&]<int... kSteps>(const float* from)
                            __attribute__((always_inline)) { (next.multiply<kSteps>(from), ...); };
  SiluPlace at = place();
  multiply.template operator()<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11>(at.from);
  for (int64_t left = pairs; left > 0; --left) {
    done = next;
    const SiluPlace below = left > 1 ? place() : at;  // the last ones again, for nobody
    done.divide<0>(at.from, at.to);
    multiply.template operator()<0, 1>(below.from);
    done.divide<1>(at.from, at.to);
    multiply.template operator()<2, 3>(below.from);
    done.divide<2>(at.from, at.to);
    multiply.template operator()<4>(below.from);
    done.divide<3>(at.from, at.to);
    multiply.template operator()<5>(below.from);
    done.divide<4>(at.from, at.to);
    multiply.template operator()<6>(below.from);
    done.divide<5>(at.from, at.to);
    multiply.template operator()<7, 8, 9, 10>(below.from);
    done.divide<6>(at.from, at.to);
    multiply.template operator()<11>(below.from);
    at = below;
  }
}

}  // namespace
}  // namespace lathe::cpu
