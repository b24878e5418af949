#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits the polynomials of src/ops/math and writes src/ops/math/coefficients.h.

Each is a weighted minimax fit (Remez exchange) in high precision, its coefficients then rounded to
the type that uses them. Needs mpmath. Usage: fit_polynomials.py [--check]
"""

import argparse
import pathlib
import struct
import sys

from mpmath import mp, mpf, matrix, lu_solve
import mpmath as m

mp.prec = 1400
OUTPUT = pathlib.Path(__file__).parent.parent / "src/ops/math/coefficients.h"


def round_to(bits, x):
    """The nearest float of `bits` bits of mantissa (any exponent)."""
    if x == 0:
        return mpf(0)
    mantissa, exponent = m.frexp(x)
    return m.ldexp(m.nint(m.ldexp(mantissa, bits)), exponent - bits)


def remez(f, weight, low, high, degree):
    """Coefficients of the polynomial minimising max weight·|poly − f|, lowest power first."""
    count = degree + 2
    middle, half = (low + high) / 2, (high - low) / 2
    points = [middle - half * m.cos(m.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    grid = [middle - half * m.cos(m.pi * i / (24 * count)) for i in range(24 * count + 1)]
    values = [(x, f(x), weight(x)) for x in grid]
    for _ in range(30):
        a, b = matrix(count, count), matrix(count, 1)
        for row, x in enumerate(points):
            for k in range(degree + 1):
                a[row, k] = weight(x) * x**k
            a[row, degree + 1] = (-1) ** row
            b[row] = weight(x) * f(x)
        solution = lu_solve(a, b)
        poly, level = list(solution[: degree + 1]), abs(solution[degree + 1])
        errors = [w * (m.polyval(poly[::-1], x) - y) for x, y, w in values]
        # The largest error between two sign changes becomes a point of the next iteration.
        peaks = []
        for (x, _, _), e in zip(values, errors):
            if not peaks or m.sign(e) * m.sign(peaks[-1][1]) < 0:
                peaks.append((x, e))
            elif abs(e) > abs(peaks[-1][1]):
                peaks[-1] = (x, e)
        while len(peaks) > count:
            peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
        if len(peaks) < count or max(abs(e) for e in errors) <= level * mpf("1.01"):
            break
        points = [x for x, _ in peaks]
    return poly


def fit(f, weight, low, high, degree, bits):
    """Coefficients rounded to floats of `bits` bits, and the remaining error."""
    low, high = mpf(low), mpf(high)
    poly = [round_to(bits, c) for c in remez(f, weight, low, high, degree)]
    xs = [low + (high - low) * i / 2000 for i in range(1, 2000)]
    return poly, max(weight(x) * abs(m.polyval(poly[::-1], x) - f(x)) for x in xs)


def near_zero(closed, terms):
    """`closed`, or its power series near 0, where `closed` cancels."""
    return lambda x: m.polyval(terms[::-1], x) if abs(x) < mpf(2) ** -40 else closed(x)


fact = m.factorial
HALF_LN2 = m.log(2) / 2 * mpf("1.001")
# sqrt(2) splits the binades, so |f| <= sqrt(2) - 1 and s = f / (2 + f) <= 0.1716.
LOG_Z = (((m.sqrt(2) - 1) / (m.sqrt(2) + 1)) * mpf("1.0001")) ** 2
QUARTER_PI_Z = (m.pi / 4 * mpf("1.01")) ** 2

exp_tail = near_zero(lambda r: (m.exp(r) - 1 - r) / r**2, [1 / fact(i + 2) for i in range(6)])
atanh_tail = near_zero(lambda z: (m.atanh(m.sqrt(z)) / m.sqrt(z) - 1) / z,
                       [mpf(1) / (2 * i + 3) for i in range(6)])
atanh_tail2 = near_zero(lambda z: (atanh_tail(z) - mpf(1) / 3) / z,
                        [mpf(1) / (2 * i + 5) for i in range(6)])
sin_tail = near_zero(lambda z: (m.sin(m.sqrt(z)) / m.sqrt(z) - 1) / z,
                     [(-1) ** (i + 1) / fact(2 * i + 3) for i in range(6)])
cos_tail = near_zero(lambda z: (m.cos(m.sqrt(z)) - 1 + z / 2) / z**2,
                     [(-1) ** i / fact(2 * i + 4) for i in range(6)])
asin_tail = near_zero(
    lambda z: (m.asin(m.sqrt(z)) / m.sqrt(z) - 1) / z,
    [fact(2 * i + 2) / (4 ** (i + 1) * fact(i + 1) ** 2 * (2 * i + 3)) for i in range(6)])
atan_tail = near_zero(lambda z: (m.atan(m.sqrt(z)) / m.sqrt(z) - 1) / z,
                      [mpf(-1) ** (i + 1) / (2 * i + 3) for i in range(6)])
erf_tail = near_zero(lambda z: m.erf(m.sqrt(z)) / m.sqrt(z) - 1,
                     [2 / m.sqrt(m.pi) * (-1) ** i / (fact(i) * (2 * i + 1)) - (i == 0)
                      for i in range(6)])
log_erfc = lambda a: m.log(m.erfc(a))
normal_tail = lambda a: m.erfc(a / m.sqrt(2)) / 2
exp2_tail = near_zero(lambda r: (mpf(2) ** r - 1) / r, [m.log(2) ** (i + 1) / fact(i + 1) for i in range(6)])

# name, comment, function, weight, interval, degree for f32 and f64 (None: not fitted)
FITS = [
    ("Exp", "e^r = 1 + r + r^2 P(r) for |r| <= ln(2)/2", exp_tail, lambda r: abs(r) + mpf("0.01"),
     (-HALF_LN2, HALF_LN2), 5, 10),
    ("Log", "atanh(s) = s (1 + z P(z)), z = s^2, for |s| <= 0.1716", atanh_tail, lambda z: z,
     (0, LOG_Z), 2, 7),
    ("LogTail", "atanh(s) = s (1 + z (1/3 + z P(z))), z = s^2, for |s| <= 0.1716", atanh_tail2,
     lambda z: z**2, (0, LOG_Z), 2, 7),
    ("Sin", "sin(r) = r (1 + z P(z)), z = r^2, for |r| <= pi/4", sin_tail, lambda z: z,
     (0, QUARTER_PI_Z), 3, 6),
    ("Cos", "cos(r) = 1 - z/2 + z^2 P(z), z = r^2, for |r| <= pi/4", cos_tail, lambda z: z**2,
     (0, QUARTER_PI_Z), 2, 5),
    ("Asin", "asin(x) = x (1 + z P(z)), z = x^2, for |x| <= 1/2", asin_tail, lambda z: z,
     (0, mpf("0.25")), 4, 12),
    ("Atan", "atan(x) = x (1 + z P(z)), z = x^2, for |x| <= 1", atan_tail,
     lambda z: z / (1 + z * atan_tail(z)), (0, 1), 8, 20),
    ("Erf", "erf(x) = x (1 + P(z)), z = x^2, for |x| <= 1", erf_tail,
     lambda z: 1 / (1 + erf_tail(z)), (0, 1), 6, 12),
    ("LogErfc", "log(erfc(a)) = P(a) for the result 1 - erfc(a), a from 1 to 4 or 6",
     log_erfc, m.erfc, (1, None), 7, 18),
    ("Exp2", "2^r = 1 + r P(r) for |r| <= 1/2", exp2_tail, lambda r: abs(r) + mpf("0.001"),
     (mpf("-0.5005"), mpf("0.5005")), 4, None),
    ("LogNormalTail", "log2(P(X > a)) of the normal distribution, weighted by P(X > a), a from 0",
     lambda a: m.log(normal_tail(a), 2), normal_tail, (0, 6), 8, None),
]


def hexadecimal(value):
    return float(value).hex()


def emit(name, suffix, comment, coefficients, error):
    lines = [f"// {comment}; error 2^{float(m.log(error, 2)):.1f}.",
             f"inline constexpr std::array<double, {len(coefficients)}> k{name}{suffix}{{"]
    lines += [f"    {hexadecimal(c)}," for c in coefficients]
    return "\n".join(lines) + "\n};\n"


def split(value, widths):
    """`value` as a sum of floats with these bits of mantissa."""
    parts = []
    for bits in widths:
        parts.append(round_to(bits, value))
        value -= parts[-1]
    return parts


def digits(value, count, bits):
    """The first `count` digits of `value` in base 2^bits, each scaled to lie in [0, 1)."""
    parts = []
    for _ in range(count):
        value = m.ldexp(value, bits)
        parts.append(m.ldexp(m.floor(value), -bits))
        value -= m.floor(value)
    return parts


CONSTANTS = [
    ("Ln2", "ln 2 in two parts; the first times any exponent is exact", m.log(2), [15, 24],
     [41, 53]),
    ("Third", "1/3 in two parts", mpf(1) / 3, [24, 24], [53, 53]),
    ("HalfPi", "pi/2 in parts", m.pi / 2, [24, 24, 24], [53, 53, 53]),
]


def generate():
    out = ["// SPDX-License-Identifier: MIT",
           "// Written by scripts/fit_polynomials.py: minimax fits, lowest power first.",
           "// clang-format off",
           "#pragma once\n", "#include <array>\n", "namespace lathe::coefficients {\n"]
    for name, comment, value, small, large in CONSTANTS:
        for suffix, widths in (("F32", small), ("F64", large)):
            parts = split(value, widths)
            rest = abs(value - sum(parts))
            out.append(emit(name, suffix, comment, parts, rest))
    for suffix, bits, count in (("F32", 29, 7), ("F64", 53, 23)):
        out.append(emit("TwoOverPi", suffix, f"2/pi in digits of {bits} bits, each in [0, 1)",
                        digits(2 / m.pi, count, bits), mpf(2) ** (-bits * count)))
    mp.prec = 320
    for name, comment, f, weight, (low, high), small, large in FITS:
        for suffix, degree, bits, end in (("F32", small, 24, 4), ("F64", large, 53, 6)):
            if degree is None:
                continue
            upper = mpf(end) if high is None else high
            coefficients, error = fit(f, weight, low, upper, degree, bits)
            print(f"{name}{suffix}: degree {degree}, error 2^{float(m.log(error, 2)):.1f}",
                  file=sys.stderr)
            out.append(emit(name, suffix, comment, coefficients, error))
    out.append("}  // namespace lathe::coefficients\n")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    arguments = parser.parse_args()
    text = generate()
    if arguments.check:
        sys.exit(0 if OUTPUT.read_text() == text else f"{OUTPUT} is not what the script writes")
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
