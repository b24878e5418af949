# SPDX-License-Identifier: MIT
"""Ops with a formula, and those that replace one. Values are short, so that most rows fit on one line: an
op and its test have at most 25 lines together.
"""

import math

import numpy as np

from op_rows.ops import Op

OPS = {}


def unary(op, operator, function, usual="-2.5, -1, 0.25, 3", odd="-inf, inf, nan, -0, 0",
          short="-1.5, 0.5, 2", more=""):
    """Rows for a function of floats; 25 lines are what file and test may have together."""
    def count(text):
        return text.count(",") + 1
    rows = f"""# Usual values.
{op}(f32[{count(usual)}] {{{usual}}})
# Infinities, NaN and zeros.
{op}(f32[{count(odd)}] {{{odd}}})
"""
    rows += more or f"""# Other widths.
{op}(f64[{count(short)}] {{{short}}})
{op}(f16[{count(short)}] {{{short}}})
{op}(bf16[{count(short)}] {{{short}}})
# No element.
{op}(f32[2, 0] {{}})
"""
    OPS[op] = Op(operator, function, rows)


def binary(op, operator, function, rows, result=0):
    OPS[op] = Op(operator, function, rows, result)


def expm1_where(condition, x, scale):
    return np.where(condition, np.expm1(np.minimum(x, 1)) * scale, x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


erf = np.vectorize(math.erf, otypes=[float])


def gelu(x, approximate="none"):
    half = 0.5 * np.maximum(x, -64)  # the limit at -inf
    if approximate == "tanh":
        return half * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return half * (1 + erf(x / math.sqrt(2)))


def shrink(x, bias=0.0, lambd=0.5):
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def is_inf(x, detect_negative=1, detect_positive=1):
    return (np.isposinf(x) & bool(detect_positive)) | (np.isneginf(x) & bool(detect_negative))


def divide(a, b):
    if a.dtype.kind == "f":
        return a / b
    wide = [[int(v) for v in x.reshape(-1)] for x in np.broadcast_arrays(a, b)]
    quotients = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(*wide)]
    return np.array(quotients, dtype=object).reshape(np.broadcast_shapes(a.shape, b.shape))


def modulo(a, b, fmod=0):
    return np.fmod(a, b) if fmod else np.mod(a, b)


def power(a, b):
    if a.dtype.kind == "i" and b.dtype.kind in "iu":
        return np.power(a, b.astype(a.dtype))
    return np.power(a.astype(np.float64), b.astype(np.float64))


def shift(x, y, direction):
    bits = x.dtype.itemsize * 8
    beyond = (y < 0) | (y >= bits)
    amount = np.where(beyond, 0, y).astype(x.dtype)
    if direction == "LEFT":
        return np.where(beyond, 0, np.left_shift(x, amount)).astype(x.dtype)
    return np.where(beyond, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, amount))


def fold(function):
    def over_all(*operands):
        result = operands[0]
        for x in operands[1:]:
            result = function(result, x)
        return result
    return over_all


def clip(x, low=None, high=None):
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


unary("acos", "Acos", np.arccos, "-1, -0.5, 0, 0.25, 1", "-inf, inf, nan, -0, 1.5", "-0.75, 0.5, 1")
unary("acosh", "Acosh", np.arccosh, "1, 1.25, 2, 10, 1e10", "-inf, inf, nan, 0, -2", "1, 1.5, 30")
unary("asin", "Asin", np.arcsin, "-1, -0.5, 0, 0.25, 1", "-inf, inf, nan, -0, 1.5", "-0.75, 0.5, 1")
unary("asinh", "Asinh", np.arcsinh, "-2, 0.001, 10, 1e10")
unary("atan", "Atan", np.arctan, "-2, 0.001, 1, 1e10")
unary("atanh", "Atanh", np.arctanh, "-0.9, -0.5, 0.001, 0.25", "-inf, nan, -0, 1, -1, 1.5",
      "-0.75, 0.5, 0.25")
unary("cos", "Cos", np.cos, "-2.5, 0.25, 3, 100", short="-0.75, 0.5, 2")
unary("cosh", "Cosh", np.cosh, "-2.5, -0.5, 0.25, 9, 100")
unary("erf", "Erf", erf, "-2.5, -0.5, 1e-5, 3")
unary("exp", "Exp", np.exp, "-100, -2.5, 0.001, 1, 88", "-inf, inf, nan, -0, 89")
unary("log", "Log", np.log, "1e-40, 0.5, 1, 2.5, 1e10", "-inf, inf, nan, -0, -1", "0.125, 0.5, 30")
unary("sin", "Sin", np.sin, "-2.5, -1, 0.25, 3, 100", short="-0.75, 0.5, 2")
unary("sinh", "Sinh", np.sinh, "-2.5, -0.5, 0.001, 9, 100")
unary("sqrt", "Sqrt", np.sqrt, "0.25, 2, 3, 1e-40, 1e30", "-inf, inf, nan, -0, -1", "0.5, 2, 30")
unary("tan", "Tan", np.tan, "-2.5, 0.25, 3, 100", short="-0.75, 0.5, 2")
unary("tanh", "Tanh", np.tanh, "-2.5, 0.001, 1, 20")
unary("sigmoid", "Sigmoid", sigmoid, "-80, -2.5, -0.5, 0.25, 20")
unary("softplus", "Softplus", softplus, "-80, -2.5, 0.25, 100")
unary("softsign", "Softsign", lambda x: x / (1 + np.abs(x)), odd="1e30, -1e30, nan, -0, 0", more="""\
# Other widths.
softsign(f64[3] {-1.5, 0.5, 2})
softsign(f16[3] {-1.5, 0.5, 2})
""")
unary("mish", "Mish", lambda x: x * np.tanh(softplus(x)), odd="inf, nan, -0, 0, -100", more="""\
# Other widths.
mish(f64[3] {-1.5, 0.5, 2})
mish(f16[3] {-1.5, 0.5, 2})
""")
unary("reciprocal", "Reciprocal", lambda x: 1 / x)
unary("ceil", "Ceil", np.ceil, "-2.5, -0.5, 0.25, 1, 8388609.5")
unary("floor", "Floor", np.floor, "-2.5, -0.5, 0.25, 1, 1e10")
unary("round", "Round", np.rint, "-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.75, 8388609")

unary("celu", "Celu", lambda x, alpha=1.0:
      np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 1) / alpha)), more="""\
# Another alpha.
celu(f32[3] {-3, -1, 2}) {alpha=0.5}
""")
unary("elu", "Elu", lambda x, alpha=1.0: expm1_where(x < 0, x, alpha), more="""\
# Another alpha, in double precision.
elu(f64[3] {-3, -1, 2}) {alpha=0.5}
""")
unary("selu", "Selu", lambda x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875:
      gamma * expm1_where(x <= 0, x, alpha), more="""\
# Other coefficients, in double precision.
selu(f64[3] {-3, -1, 2}) {alpha=0.5, gamma=2.0}
""")
unary("leaky_relu", "LeakyRelu", lambda x, alpha=0.01: np.where(x < 0, alpha * x, x), more="""\
# Another slope, and half precision.
leaky_relu(f64[3] {-3, -0, 2}) {alpha=0.5}
leaky_relu(f16[3] {-3, -0, 2}) {alpha=-2.0}
""")
unary("thresholded_relu", "ThresholdedRelu", lambda x, alpha=1.0: np.where(x > alpha, x, 0),
      "-2.5, 0.5, 1, 1.5, 3", more="""\
# Another threshold, and half precision.
thresholded_relu(f32[3] {-3, -1.5, 2}) {alpha=-2.0}
thresholded_relu(f16[3] {-3, 1, 1.5})
""")
unary("hard_sigmoid", "HardSigmoid", lambda x, alpha=0.2, beta=0.5:
      np.maximum(0, np.minimum(1, alpha * x + beta)), "-2.5, -1, 0, 0.25, 3", more="""\
# Other coefficients.
hard_sigmoid(f64[4] {-3, -1, 0.25, 2}) {alpha=0.25, beta=0.75}
""")
unary("hard_swish", "HardSwish", lambda x: x * np.maximum(0, np.minimum(1, x / 6 + 0.5)),
      "-3.5, -3, -1, 0.25, 3, 5", "inf, nan, -0, 0", more="""\
# Half precision.
hard_swish(f16[4] {-3.5, -1, 0.5, 3})
""")
unary("swish", "Swish", lambda x, alpha=1.0: x * sigmoid(alpha * x), odd="inf, nan, -0, 0, -100",
      more="""\
# Another alpha, and half precision.
swish(f64[3] {-3, -1, 2}) {alpha=0.5}
""")
OPS["swiglu"] = Op("SwiGLU", lambda a, b, alpha=1.0: a * sigmoid(alpha * a) * b, """
    # A gate times values.
    swiglu(f32[2, 2] {-2, -0.5, 0, 3}, f32[2, 2] {2, 4, 6, -1})
    # Another alpha, in double and half precision.
    swiglu(f64[3] {-3, -1, 2}, f64[3] {1, 2, 3}) {alpha=0.5}
    swiglu(f16[2] {-3, 2}, f16[2] {1, 2}) {alpha=2.0}
    """)
OPS["gelu"] = Op("Gelu", gelu, """
    # By the error function; at -inf the limit, not the product of the formula.
    gelu(f32[6] {-3, -1, 2, inf, -inf, nan})
    gelu(f64[4] {-inf, inf, nan, -0})
    # By the hyperbolic tangent.
    gelu(f32[5] {-3, -1, 0.5, -inf, nan}) {approximate="tanh"}
    """)
OPS["shrink"] = Op("Shrink", shrink, """
    # Without and with a bias.
    shrink(f32[7] {-2, -0.5, 0.25, 0.5, 0.75, inf, nan})
    shrink(f64[4] {-2, -1, 0.5, 3}) {bias=0.5, lambd=1.0}
    # Integers.
    shrink(i8[5] {-5, -2, 0, 2, 5}) {bias=1.0, lambd=1.5}
    """)

unary("abs", "Abs", np.abs, more="""\
# Integers: the smallest value wraps.
abs(i8[4] {-128, -127, 0, 5})
abs(i64[2] {-9223372036854775807, 3})
abs(u64[2] {18446744073709551615, 3})
# Other widths.
abs(bf16[2] {-1.5, 2})
""")
unary("neg", "Neg", np.negative, more="""\
# Integers: the smallest value wraps.
neg(i8[4] {-128, -127, 0, 5})
neg(i64[2] {-9223372036854775808, 3})
# Other widths.
neg(f16[2] {-1.5, 2})
""")
unary("relu", "Relu", lambda x: np.maximum(x, 0), more="""\
# Integers.
relu(i8[3] {-128, 0, 5})
relu(i64[2] {-9223372036854775808, 3})
# Other widths.
relu(bf16[2] {-1.5, 2})
relu(f64[0] {})
""")
unary("sign", "Sign", np.sign, "-2.5, 1e-40, 3", more="""\
# Integers.
sign(i8[3] {-128, 0, 5})
sign(u64[2] {18446744073709551615, 0})
""")
OPS["is_nan"] = Op("IsNaN", np.isnan, """
    # Floats of every width.
    is_nan(f32[4] {nan, inf, -0, 1})
    is_nan(f64[2] {nan, 1})
    is_nan(bf16[2] {nan, inf})
    is_nan(f8e4m3fn[2] {nan, 448})
    is_nan(f8e5m2[3] {nan, inf, 1})
    """, "bool")
OPS["is_inf"] = Op("IsInf", is_inf, """
    # Either sign, one, or none.
    is_inf(f32[4] {-inf, inf, nan, 3e38})
    is_inf(f64[3] {-inf, inf, nan}) {detect_negative=false}
    is_inf(f32[3] {-inf, inf, nan}) {detect_positive=false}
    is_inf(f8e5m2[1] {inf}) {detect_negative=false, detect_positive=false}
    """, "bool")
OPS["not"] = Op("Not", np.logical_not, """
    # Both values.
    not(bool[2] {true, false})
    not(bool[0, 2] {})
    """)
OPS["bitwise_not"] = Op("BitwiseNot", np.invert, """
    # Signed and unsigned.
    bitwise_not(i8[3] {0, -1, 100})
    bitwise_not(u16[2] {0, 65535})
    bitwise_not(i64[2] {0, -9223372036854775808})
    bitwise_not(u64[1] {1})
    """)

ARITHMETIC = """
    # A column and a row broadcast.
    {op}(f32[2, 1] {{1.5, -2}}, f32[3] {{0.5, 4, -3}})
    # Infinities, NaN and overflow.
    {op}(f32[4] {{inf, nan, 3e38, -0}}, f32[4] {{{odd}}})
    # Integers wrap.
    {op}(i8[3] {{100, -128, 7}}, i8[3] {{{small}}})
    {op}(u32[2] {{4000000000, 3}}, u32[2] {{500000000, 4}})
    """
binary("add", "Add", np.add, ARITHMETIC.format(op="add", odd="-inf, 1, 3e38, -0", small="100, -1, 5")
       + "{op}(i64[2] {9223372036854775807, 3}, i64[1] {1})".replace("{op}", "add"))
binary("sub", "Sub", np.subtract,
       ARITHMETIC.format(op="sub", odd="inf, 1, -3e38, 0", small="-100, 1, 5")
       + "sub(i64[2] {-9223372036854775808, 3}, i64[1] {1})")
binary("mul", "Mul", np.multiply,
       ARITHMETIC.format(op="mul", odd="0, 1, 10, 3", small="100, -1, 5")
       + "mul(i64[2] {3037000500, -1}, i64[1] {3037000500})")
binary("div", "Div", divide, """
    # A column and a row broadcast.
    div(f32[2, 1] {1.5, -2}, f32[3] {0.5, 4, -3})
    # By zero and infinity.
    div(f32[4] {1, -1, 0, 5}, f32[4] {0, 0, 0, inf})
    # Integers truncate.
    div(i32[4] {7, -7, 7, -7}, i32[4] {2, 2, -2, -2})
    """)
binary("mod", "Mod", modulo, """
    # Floored by default, truncated with fmod: all combinations of signs.
    mod(i32[4] {7, -7, 7, -7}, i32[4] {3, 3, -3, -3})
    mod(f32[4] {5.5, -5.5, 5, -5}, f32[4] {2, 2, -2, -2}) {fmod=true}
    """)
binary("pow", "Pow", power, """
    # Floats, with integers as exponents, integers with floats, and integers.
    pow(f32[5] {2, -8, -2, 0, 0}, f32[5] {0.5, 2, 0.5, 0, -1})
    pow(f32[2, 1] {-1, 1.5}, i64[2] {16777217, -2})
    pow(i32[3] {2, 3, -9}, f32[3] {3, 2.5, 2})
    pow(i32[4] {2, -3, 10, 7}, i64[4] {10, 3, 10, 0})
    """)
binary("bit_shift", "BitShift", shift, """
    # Left shifts by a row of amounts.
    bit_shift(u8[2, 1] {1, 255}, u8[4] {0, 1, 7, 8}) {direction="LEFT"}
    # Right shifts fill with the sign.
    bit_shift(u64[2] {18446744073709551615, 16}, u64[2] {63, 64}) {direction="RIGHT"}
    bit_shift(i8[4] {-128, -128, 64, -1}, i8[4] {3, 100, 2, -1}) {direction="RIGHT"}
    bit_shift(i32[2] {3, 1}, i32[2] {30, 31}) {direction="LEFT"}
    """)
for op, operator, function in (("bitwise_and", "BitwiseAnd", np.bitwise_and),
                               ("bitwise_or", "BitwiseOr", np.bitwise_or),
                               ("bitwise_xor", "BitwiseXor", np.bitwise_xor)):
    binary(op, operator, function, f"""
    # A column and a row broadcast.
    {op}(u8[2, 1] {{12, 255}}, u8[2] {{10, 1}})
    # Sign bits are bits.
    {op}(i64[3] {{-1, -9223372036854775808, 12}}, i64[3] {{5, -1, 10}})
    # No element.
    {op}(i16[0, 1] {{}}, i16[3] {{1, 2, 3}})
    """)
for op, operator, function in (("and", "And", np.logical_and), ("or", "Or", np.logical_or),
                               ("xor", "Xor", np.logical_xor)):
    binary(op, operator, function, f"""
    # All combinations, by broadcasting.
    {op}(bool[2, 1] {{true, false}}, bool[2] {{true, false}})
    # No element.
    {op}(bool[0, 1] {{}}, bool[3] {{true, true, false}})
    """)
for op, operator, function in (
        ("less", "Less", np.less), ("less_or_equal", "LessOrEqual", np.less_equal),
        ("greater", "Greater", np.greater), ("greater_or_equal", "GreaterOrEqual", np.greater_equal)):
    binary(op, operator, function, f"""
    # A column and a row broadcast.
    {op}(f32[2, 1] {{1, 2}}, f32[3] {{1, 2, 3}})
    # NaN, infinities and zeros of both signs.
    {op}(f32[4] {{nan, inf, -inf, -0}}, f32[4] {{nan, 1, inf, 0}})
    # Integers beyond the range of floats.
    {op}(i64[2] {{9007199254740993, -1}}, i64[2] {{9007199254740992, 1}})
    {op}(u64[2] {{18446744073709551615, 0}}, u64[2] {{1, 0}})
    """, "bool")
binary("equal", "Equal", np.equal, """
    # Floats, integers beyond the range of f32, and bools.
    equal(f32[4] {nan, inf, -0, 2}, f32[4] {nan, 1, 0, 2})
    equal(i64[1] {16777217}, i64[2] {16777216, 16777217})
    equal(bool[2] {true, false}, bool[1] {true})
    """, "bool")
for op, operator, function in (("max", "Max", np.maximum), ("min", "Min", np.minimum)):
    binary(op, operator, fold(function), f"""
    # Three operands that broadcast, with NaN.
    {op}(f32[2, 1] {{1.5, -2}}, f32[3] {{0.5, 4, nan}}, f32[1] {{1}})
    # Integers, and a single operand.
    {op}(i64[2] {{9007199254740993, -1}}, i64[2] {{9007199254740992, 1}})
    {op}(bf16[2] {{1, -2}})
    """)
for op, operator, function in (
        ("sum", "Sum", fold(np.add)), ("mean", "Mean", lambda *x: fold(np.add)(*x) / len(x))):
    binary(op, operator, function, f"""
    # Three operands that broadcast.
    {op}(f32[2, 1] {{1.5, -2}}, f32[3] {{0.5, 4, nan}}, f32[1] {{1}})
    # A single operand, and half precision.
    {op}(f64[2] {{1, inf}})
    {op}(f16[2] {{60000, 1}}, f16[2] {{-60000, 2}})
    """)
binary("prelu", "PRelu", lambda x, slope: np.where(x < 0, x * slope, x), """
    # A slope per column.
    prelu(f32[2, 3] {-1, -2, -3, 4, -0, nan}, f32[3] {0.5, -2, 0})
    # Integers.
    prelu(i32[3] {-2, 0, 3}, i32[1] {5})
    # Half precision.
    prelu(f16[2, 1] {-2, 3}, f16[1] {0.25})
    """)
binary("where", "Where", np.where, """
    # Everything broadcasts.
    where(bool[2, 1] {true, false}, f32[2] {1, nan}, f32[1] {-0.5})
    # Integers and bools.
    where(bool[2] {true, false}, i64[1] {9007199254740993}, i64[] {1})
    where(bool[2] {true, false}, u8[2] {255, 0}, u8[] {128})
    """, 1)
binary("choose", "Where", np.where, """
    # Strings.
    choose(bool[2, 1] {true, false}, string[2] {"a", "b"}, string[1] {"other"})
    # Complex numbers.
    choose(bool[3] {true, false, true}, c64[3] {1+2i, 3, 0-1i}, c64[1] {0.5-0.5i})
    choose(bool[] {false}, c128[1] {1+2i}, c128[2] {0, 2+1i})
    # Small floats and types below 8 bits.
    choose(bool[2] {true, false}, f8e5m2[1] {inf}, f8e5m2[1] {0.5})
    choose(bool[3] {true, false, true}, i4[3] {-8, 0, 3}, i4[] {7})
    choose(bool[2] {true, false}, f4e2m1[2] {-6, 1}, f4e2m1[] {0.5})
    # No element.
    choose(bool[0, 1] {}, string[3] {"a", "b", "c"}, string[1] {"d"})
    """, 1)
binary("string_equal", "Equal", np.equal, """
    # A column and a row broadcast.
    string_equal(string[2, 1] {"a", "bc"}, string[3] {"a", "b", "bc"})
    # Case matters; empty strings are equal.
    string_equal(string[3] {"A", "", "ab"}, string[3] {"a", "", "ab "})
    # No element.
    string_equal(string[0] {}, string[1] {"a"})
    """, "bool")
OPS["clip"] = Op("Clip", clip, """
    # Both limits.
    clip(f32[2, 3] {-3, -0.5, 0, 0.5, nan, inf}, f32[] {-1}, f32[] {0.25})
    # Each limit alone, and none.
    clip(f32[3] {-3, 0, 3}, f32[] {-1})
    clip(f32[3] {-3, 0, 3}, _, f32[] {1})
    clip(f32[3] {-3, 0, 3})
    # If the limits cross, the upper one is the result.
    clip(f32[3] {-3, 0, 3}, f32[] {2}, f32[] {1})
    # Integers.
    clip(i8[3] {-128, 0, 127}, i8[] {-100}, i8[] {100})
    clip(u64[2] {18446744073709551615, 0}, u64[] {1}, u64[] {9223372036854775808})
    # Half precision, and no element.
    clip(f16[2] {-3, 3}, _, f16[] {1})
    clip(f32[0] {}, f32[] {1})
    # A limit is one number.
    clip(f32[3] {-3, 0, 3}, f32[3] {1, 2, 3}) = error "limit"
    """)
