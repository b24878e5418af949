// SPDX-License-Identifier: MIT
// Written by scripts/fit_polynomials.py: minimax fits, lowest power first.
// clang-format off
#pragma once

#include <array>

namespace lathe::coefficients {

// ln 2 in two parts; the first times any exponent is exact; error 2^-44.0.
inline constexpr std::array<double, 2> kLn2F32{
    0x1.62e4000000000p-1,
    0x1.7f7d1c0000000p-20,
};

// ln 2 in two parts; the first times any exponent is exact; error 2^-102.0.
inline constexpr std::array<double, 2> kLn2F64{
    0x1.62e42fefa4000p-1,
    -0x1.8432a1b0e2634p-43,
};

// 1/3 in two parts; error 2^-51.6.
inline constexpr std::array<double, 2> kThirdF32{
    0x1.5555560000000p-2,
    -0x1.5555560000000p-27,
};

// 1/3 in two parts; error 2^-109.6.
inline constexpr std::array<double, 2> kThirdF64{
    0x1.5555555555555p-2,
    0x1.5555555555555p-56,
};

// pi/2 in parts; error 2^-76.3.
inline constexpr std::array<double, 3> kHalfPiF32{
    0x1.921fb60000000p+0,
    -0x1.777a5c0000000p-25,
    -0x1.ee59da0000000p-50,
};

// pi/2 in parts; error 2^-163.6.
inline constexpr std::array<double, 3> kHalfPiF64{
    0x1.921fb54442d18p+0,
    0x1.1a62633145c07p-54,
    -0x1.f1976b7ed8fbcp-110,
};

// 2/pi in digits of 29 bits, each in [0, 1); error 2^-203.0.
inline constexpr std::array<double, 7> kTwoOverPiF32{
    0x1.45f306d000000p-1,
    0x1.9391054000000p-1,
    0x1.4fe13ab000000p-1,
    0x1.d1f534d000000p-1,
    0x1.b81b6c5000000p-1,
    0x1.5993c40000000p-3,
    0x1.c820ff2000000p-1,
};

// 2/pi in digits of 53 bits, each in [0, 1); error 2^-1219.0.
inline constexpr std::array<double, 23> kTwoOverPiF64{
    0x1.45f306dc9c882p-1,
    0x1.4a7f09d5f47d4p-1,
    0x1.a6ee06db14accp-1,
    0x1.3c439041fe516p-1,
    0x1.d5ef5de2b0db8p-3,
    0x1.2371d2126e970p-2,
    0x1.924bba8274600p-8,
    0x1.21cfe1deb1cb1p-1,
    0x1.4d39f74411af8p-3,
    0x1.4baed1213a671p-1,
    0x1.8135a2fbf209cp-1,
    0x1.91d639835339fp-1,
    0x1.272117e2ef7e4p-2,
    0x1.41d8ffc4bffeep-2,
    0x1.02cc07f79788cp-1,
    0x1.6b414da3eda6cp-2,
    0x1.fb3c9f2c26dd2p-2,
    0x1.d18fd9a797fa8p-1,
    0x1.6ba93dd63f5f2p-1,
    0x1.f17b3d0739f78p-1,
    0x1.4a525d4d7f6bfp-1,
    0x1.88fc6ae842b00p-2,
    0x1.98237e3db5d5fp-1,
};

// e^r = 1 + r + r^2 P(r) for |r| <= ln(2)/2; error 2^-28.7.
inline constexpr std::array<double, 6> kExpF32{
    0x1.0000000000000p-1,
    0x1.5555560000000p-3,
    0x1.5554b00000000p-5,
    0x1.1110940000000p-7,
    0x1.6d729c0000000p-10,
    0x1.a19c940000000p-13,
};

// e^r = 1 + r + r^2 P(r) for |r| <= ln(2)/2; error 2^-59.8.
inline constexpr std::array<double, 11> kExpF64{
    0x1.0000000000000p-1,
    0x1.5555555555559p-3,
    0x1.555555555555ap-5,
    0x1.111111110f72dp-7,
    0x1.6c16c16c1455ep-10,
    0x1.a01a01afbc50ep-13,
    0x1.a01a01b077d1bp-16,
    0x1.71ddf8a7ecbf2p-19,
    0x1.27e4c60b952fbp-22,
    0x1.af5e46bfd4b49p-26,
    0x1.1f94de2dd7431p-29,
};

// atanh(s) = s (1 + z P(z)), z = s^2, for |s| <= 0.1716; error 2^-30.1.
inline constexpr std::array<double, 3> kLogF32{
    0x1.55557a0000000p-2,
    0x1.995eb60000000p-3,
    0x1.31e36a0000000p-3,
};

// atanh(s) = s (1 + z P(z)), z = s^2, for |s| <= 0.1716; error 2^-61.5.
inline constexpr std::array<double, 8> kLogF64{
    0x1.5555555555555p-2,
    0x1.9999999999e00p-3,
    0x1.249249242b2c9p-3,
    0x1.c71c725917023p-4,
    0x1.745cde2d8ba0ap-4,
    0x1.3b20acf413947p-4,
    0x1.0f5ca97b0a572p-4,
    0x1.0f6431133830cp-4,
};

// atanh(s) = s (1 + z (1/3 + z P(z))), z = s^2, for |s| <= 0.1716; error 2^-36.6.
inline constexpr std::array<double, 3> kLogTailF32{
    0x1.999a000000000p-3,
    0x1.2452980000000p-3,
    0x1.df9d160000000p-4,
};

// atanh(s) = s (1 + z (1/3 + z P(z))), z = s^2, for |s| <= 0.1716; error 2^-66.3.
inline constexpr std::array<double, 8> kLogTailF64{
    0x1.9999999999996p-3,
    0x1.2492492493038p-3,
    0x1.c71c71c58008ep-4,
    0x1.745d1832811f6p-4,
    0x1.3b1362a9953d9p-4,
    0x1.1120b7833d2d3p-4,
    0x1.de33240db6dbbp-5,
    0x1.eb13a0b183fa5p-5,
};

// sin(r) = r (1 + z P(z)), z = r^2, for |r| <= pi/4; error 2^-28.2.
inline constexpr std::array<double, 4> kSinF32{
    -0x1.5555560000000p-3,
    0x1.1111080000000p-7,
    -0x1.a00f320000000p-13,
    0x1.6cbed20000000p-19,
};

// sin(r) = r (1 + z P(z)), z = r^2, for |r| <= pi/4; error 2^-57.3.
inline constexpr std::array<double, 7> kSinF64{
    -0x1.5555555555555p-3,
    0x1.111111111110ap-7,
    -0x1.a01a01a0188b2p-13,
    0x1.71de3a530b53dp-19,
    -0x1.ae64525b860cbp-26,
    0x1.61206b9dadfd5p-33,
    -0x1.aa91b88649f30p-41,
};

// cos(r) = 1 - z/2 + z^2 P(z), z = r^2, for |r| <= pi/4; error 2^-32.6.
inline constexpr std::array<double, 3> kCosF32{
    0x1.55554a0000000p-5,
    -0x1.6c0c240000000p-10,
    0x1.99e37e0000000p-16,
};

// cos(r) = 1 - z/2 + z^2 P(z), z = r^2, for |r| <= pi/4; error 2^-59.5.
inline constexpr std::array<double, 6> kCosF64{
    0x1.555555555554ap-5,
    -0x1.6c16c16c14ebfp-10,
    0x1.a01a019c6a78dp-16,
    -0x1.27e4f7d4b6f57p-22,
    0x1.1ee9c6a9b9569p-29,
    -0x1.8f9ad25d9d1b3p-37,
};

// asin(x) = x (1 + z P(z)), z = x^2, for |x| <= 1/2; error 2^-27.4.
inline constexpr std::array<double, 5> kAsinF32{
    0x1.5555ca0000000p-3,
    0x1.33014e0000000p-4,
    0x1.748c600000000p-5,
    0x1.8ba2720000000p-6,
    0x1.59dac40000000p-5,
};

// asin(x) = x (1 + z P(z)), z = x^2, for |x| <= 1/2; error 2^-58.7.
inline constexpr std::array<double, 13> kAsinF64{
    0x1.5555555555578p-3,
    0x1.333333332df8bp-4,
    0x1.6db6db7225910p-5,
    0x1.f1c71a8dea342p-6,
    0x1.6e8bdfa2a52b8p-6,
    0x1.1c49e2f955df2p-6,
    0x1.ca20c8ac5197fp-7,
    0x1.757ba39eb53d7p-7,
    0x1.6173156cd30eap-7,
    0x1.e2cb2ce0def45p-9,
    0x1.648ef876b6404p-6,
    -0x1.594f6890acbd9p-6,
    0x1.0baed5bad956bp-5,
};

// atan(x) = x (1 + z P(z)), z = x^2, for |x| <= 1; error 2^-26.8.
inline constexpr std::array<double, 9> kAtanF32{
    -0x1.55553e0000000p-2,
    0x1.9991fc0000000p-3,
    -0x1.2421b20000000p-3,
    0x1.c099e60000000p-4,
    -0x1.5834540000000p-4,
    0x1.dac93c0000000p-5,
    -0x1.fed0580000000p-6,
    0x1.65a5820000000p-7,
    -0x1.d62ed20000000p-10,
};

// atan(x) = x (1 + z P(z)), z = x^2, for |x| <= 1; error 2^-56.9.
inline constexpr std::array<double, 21> kAtanF64{
    -0x1.555555555554dp-2,
    0x1.9999999998c27p-3,
    -0x1.2492492456aa2p-3,
    0x1.c71c71b628e12p-4,
    -0x1.745d15d02e9c6p-4,
    0x1.3b139bce7b677p-4,
    -0x1.1110326769e69p-4,
    0x1.e1d48707600e3p-5,
    -0x1.aeda51a279e76p-5,
    0x1.84b44e966daf6p-5,
    -0x1.5f241e981d970p-5,
    0x1.39044a2fb5cc7p-5,
    -0x1.0c94004ad7938p-5,
    0x1.ac780143a2619p-6,
    -0x1.30f99d7ae98adp-6,
    0x1.72db6c674a5cep-7,
    -0x1.6fd07399b0a45p-8,
    0x1.1a039c2d4dfffp-9,
    -0x1.36d947e96c107p-11,
    0x1.b3ac8fab81118p-14,
    -0x1.2263e5a843742p-17,
};

// erf(x) = x (1 + P(z)), z = x^2, for |x| <= 1; error 2^-28.8.
inline constexpr std::array<double, 7> kErfF32{
    0x1.06eba80000000p-3,
    -0x1.81273e0000000p-2,
    0x1.ce2cf80000000p-4,
    -0x1.b7f90e0000000p-6,
    0x1.5405b00000000p-8,
    -0x1.a3f6ee0000000p-11,
    0x1.4969ea0000000p-14,
};

// erf(x) = x (1 + P(z)), z = x^2, for |x| <= 1; error 2^-56.3.
inline constexpr std::array<double, 13> kErfF64{
    0x1.06eba8214db69p-3,
    -0x1.812746b0379e6p-2,
    0x1.ce2f21a042b20p-4,
    -0x1.b82ce3128499fp-6,
    0x1.565bcd0db0351p-8,
    -0x1.c02db3d8ee55ep-11,
    0x1.f9a321a13ff56p-14,
    -0x1.f4d1df3bcfc2dp-17,
    0x1.b9def1bda8f10p-20,
    -0x1.5f1d37c9fba8fp-23,
    0x1.f7a41d09c8217p-27,
    -0x1.386ae19cf1136p-30,
    0x1.057a0196ffdf9p-34,
};

// log(erfc(a)) = P(a) for the result 1 - erfc(a), a from 1 to 4 or 6; error 2^-26.9.
inline constexpr std::array<double, 8> kLogErfcF32{
    0x1.8a53f40000000p-13,
    -0x1.212c0c0000000p+0,
    -0x1.4435680000000p-1,
    -0x1.bc15060000000p-4,
    0x1.9d02de0000000p-6,
    -0x1.138c860000000p-8,
    0x1.cec5560000000p-12,
    -0x1.6bd7040000000p-16,
};

// log(erfc(a)) = P(a) for the result 1 - erfc(a), a from 1 to 4 or 6; error 2^-55.8.
inline constexpr std::array<double, 19> kLogErfcF64{
    -0x1.8c01e1c8b649ep-23,
    -0x1.20dd55649c040p+0,
    -0x1.45f4329406d72p-1,
    -0x1.a4d9a9305b53fp-4,
    0x1.388e87963eea0p-6,
    0x1.27f208cff7abfp-12,
    -0x1.d03d4975f44f0p-10,
    0x1.51087ba156de4p-11,
    -0x1.8189cec871107p-15,
    -0x1.248bee3459ad6p-14,
    0x1.778d0c01e19a4p-15,
    -0x1.1380b0a01801ap-16,
    0x1.20aeeee5c9691p-18,
    -0x1.c5c09861e5deap-21,
    0x1.0c1143b333dedp-23,
    -0x1.d09c505de06b6p-27,
    0x1.178e93b2135dfp-30,
    -0x1.a1f3c566cb5b9p-35,
    0x1.2474c1092e7c8p-40,
};

// 2^r = 1 + r P(r) for |r| <= 1/2; error 2^-23.2.
inline constexpr std::array<double, 5> kExp2F32{
    0x1.62e4320000000p-1,
    0x1.ebf9b00000000p-3,
    0x1.c6ae660000000p-5,
    0x1.3cee620000000p-7,
    0x1.5f771a0000000p-10,
};

// log2(P(X > a)) of the normal distribution, weighted by P(X > a), a from 0; error 2^-25.3.
inline constexpr std::array<double, 9> kLogNormalTailF32{
    -0x1.0000000000000p+0,
    -0x1.26aede0000000p+0,
    -0x1.d639d00000000p-2,
    -0x1.ae1f0e0000000p-5,
    0x1.cfb3360000000p-8,
    -0x1.31f9a20000000p-13,
    -0x1.7ecc0e0000000p-13,
    0x1.43f0e40000000p-15,
    -0x1.7401ae0000000p-19,
};

}  // namespace lathe::coefficients
