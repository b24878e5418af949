# SPDX-License-Identifier: MIT
"""Ops that convert elements from one type to another."""

import numpy as np
import onnx

from op_rows.ops import TYPES, Op

OPS = {}


# Texts are ONNX Runtime's alone.
def cast(x, to, saturate=1, round_mode="up"):
    dtype, _ = TYPES[to]
    if to.startswith("f8e8"):
        return onnx.numpy_helper.to_float8e8m0(x.astype(np.float32), bool(saturate), round_mode)
    if to.startswith("f8") and saturate:
        return onnx.numpy_helper.saturate_cast(x, np.dtype(dtype))
    return None if dtype is object else x.astype(dtype)


OPS["bit_cast"] = Op("BitCast", lambda x, to: x.view(TYPES[to][0]), """
    # Types of equal width: signs and NaN as bits.
    bit_cast(f32[4] {1, -0, inf, nan}) {to=u32}
    bit_cast(i32[2, 2] {1065353216, -1, 0, 1}) {to=f32}
    bit_cast(f64[1] {-2}) {to=i64}
    bit_cast(f16[2] {1, -2}) {to=bf16}
    bit_cast(u8[3] {56, 255, 128}) {to=f8e4m3fn}
    # Bools and complex numbers.
    bit_cast(bool[2] {true, false}) {to=u8}
    bit_cast(c64[2] {1+2i, -1}) {to=f64}
    # Types below 8 bits.
    bit_cast(i4[3] {-1, 7, -8}) {to=u4}
    # No element.
    bit_cast(i64[0, 2] {}) {to=f64}
    # Sizes must agree.
    bit_cast(f32[1] {1}) {to=i64} = error "f32 has 32 bits, i64 has 64: expected equal sizes"
    """, "to", widens=False)
OPS["cast"] = Op("Cast", cast, """
    # Floats to integers truncate.
    cast(f32[5] {-2.7, -0.5, 0.5, 2.7, 100.9}) {to=i32}
    cast(f64[3] {0.9, 2.7, 255.9}) {to=u8}
    cast(f16[3] {-2.7, 0.5, 2048}) {to=i64}
    cast(bf16[2] {-2.7, 100}) {to=i8}
    # Floats out of an integer's range, as on x86.
    cast(f32[4] {3e9, -3e9, nan, inf}) {to=i32}
    cast(f64[3] {1e30, -inf, nan}) {to=i64}
    # Integers keep their low bits.
    cast(i32[4] {200, -1, 65536, 300}) {to=i8}
    cast(i32[4] {200, -1, 65536, 300}) {to=u16}
    cast(i64[3] {4294967297, -1, 5}) {to=u32}
    cast(u64[2] {18446744073709551615, 5}) {to=i64}
    # Integers to floats round to even.
    cast(i64[3] {9007199254740993, -3, 16777217}) {to=f32}
    cast(u64[2] {18446744073709551615, 9007199254740993}) {to=f64}
    cast(i32[3] {2049, 70000, -5}) {to=f16}
    cast(i16[2] {257, -5}) {to=bf16}
    # To bool: true if not zero.
    cast(f32[5] {0, -0, 0.1, nan, -3}) {to=bool}
    cast(i64[3] {0, 256, -1}) {to=bool}
    # From bool.
    cast(bool[2] {true, false}) {to=f32}
    cast(bool[2] {true, false}) {to=i8}
    # Floats to narrower floats round to even, overflow to infinity.
    cast(f32[7] {1.0004, 65520, 65519, 3e-8, 2e-8, nan, -inf}) {to=f16}
    cast(f32[5] {1.00390625, 1.01171875, 3.4e38, nan, -0}) {to=bf16}
    cast(f64[4] {0.1, 1e39, 1e-46, -inf}) {to=f32}
    # Floats to wider floats.
    cast(f16[3] {0.1, 65504, nan}) {to=f64}
    cast(bf16[3] {0.1, -inf, 1}) {to=f32}
    # 8-bit floats saturate.
    cast(f32[8] {0, -0, 0.3, 1000, -1000, inf, -inf, nan}) {to=f8e4m3fn}
    cast(f32[8] {0, -0, 0.3, 1000, -1000, inf, -inf, nan}) {to=f8e4m3fnuz}
    cast(f32[8] {0, -0, 0.3, 1e6, -1e6, inf, -inf, nan}) {to=f8e5m2}
    cast(f32[8] {0, -0, 0.3, 1e6, -1e6, inf, -inf, nan}) {to=f8e5m2fnuz}
    cast(f16[3] {0.3, 60000, -inf}) {to=f8e4m3fn}
    # Without saturation they become NaN, or infinite if the type has infinity.
    cast(f32[8] {0, -0, 0.3, 1000, -1000, inf, -inf, nan}) {saturate=false, to=f8e4m3fn}
    cast(f32[8] {0, -0, 0.3, 1000, -1000, inf, -inf, nan}) {saturate=false, to=f8e4m3fnuz}
    cast(f32[8] {0, -0, 0.3, 1e6, -1e6, inf, -inf, nan}) {saturate=false, to=f8e5m2}
    cast(f32[8] {0, -0, 0.3, 1e6, -1e6, inf, -inf, nan}) {saturate=false, to=f8e5m2fnuz}
    # From 8-bit floats.
    cast(f8e4m3fn[4] {448, -0.5, nan, 0.001953125}) {to=f32}
    cast(f8e5m2[4] {57344, -0.5, inf, 1}) {to=f16}
    cast(f8e4m3fnuz[3] {240, -0.5, nan}) {to=f32}
    cast(f8e5m2fnuz[2] {57344, -0.5}) {to=i32}
    # Powers of two round up, down or to the nearest.
    cast(f32[6] {0, 1, 3, 2.5, 6.1, nan}) {to=f8e8m0}
    cast(f32[4] {1, 3, 2.5, 7.9}) {round_mode="down", to=f8e8m0}
    cast(f32[4] {1, 3, 2.5, 7.9}) {round_mode="nearest", to=f8e8m0}
    cast(f8e8m0[3] {0.5, 1, 1024}) {to=f32}
    # 4-bit floats.
    cast(f32[6] {0.2, 1.7, 5, 100, -0.3, -6}) {to=f4e2m1}
    cast(f4e2m1[3] {0.5, -6, 3}) {to=f16}
    # Integers of 4 and 2 bits.
    cast(f32[4] {-7.7, -1.5, 3.9, 7}) {to=i4}
    cast(i32[4] {7, 8, -9, 15}) {to=i4}
    cast(i8[4] {7, 8, -9, 15}) {to=u4}
    cast(i4[3] {-8, 7, -1}) {to=f32}
    cast(u4[3] {0, 15, 8}) {to=i64}
    cast(i32[5] {0, 1, 2, 3, -3}) {to=i2}
    cast(u2[5] {0, 1, 2, 3, 3}) {to=f32}
    # Strings to numbers.
    cast(string[6] {"3.25", "-1e5", "INF", "-inf", "NaN", "0.1"}) {to=f32}
    cast(string[2] {"1e-3", "100"}) {to=f64}
    cast(string[3] {"100", "-7", "9007199254740993"}) {to=i64}
    cast(string[1] {"1.5"}) {to=f16}
    # Numbers to strings.
    cast(f32[6] {3.25, -0.1, 1e20, 1e-7, 123456.78, 5}) {to=string}
    cast(f32[3] {nan, inf, -inf}) {to=string}
    cast(f64[2] {0.1, 1e100}) {to=string}
    cast(i64[2] {-9007199254740993, 5}) {to=string}
    cast(u8[1] {255}) {to=string}
    cast(bool[2] {true, false}) {to=string}
    # The real part of complex numbers.
    cast(c64[2] {1.5+2i, -3}) {to=f32}
    # No element.
    cast(f32[2, 0] {}) {to=i64}
    # A string that is not a number.
    cast(string[1] {"Hello"}) {to=f32} = error "Hello"
    """, "to", widens=False)
