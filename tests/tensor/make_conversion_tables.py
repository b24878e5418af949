# SPDX-License-Identifier: MIT
"""Writes conversion_tables.gz: what numpy and ml_dtypes make of every bit pattern of the types up
to 16 bits, and of some thousand floats and integers converted to every type.

The file is a list of records: name of the source type, name of the target type, options, element
count, source elements (none, if they are those of the record before) and target elements. Packed
types stand one element to a byte. Elements are stored as differences to the one before (bits as
unsigned integers), byte by byte in planes, which gzip likes.
With --check the file is compared with what would be written.
"""

import gzip
import pathlib
import struct
import sys

import ml_dtypes
import numpy as np
import onnx.numpy_helper

PATH = pathlib.Path(__file__).with_name("conversion_tables.gz")
SATURATE, UP, DOWN, NEAREST = 1, 0, 2, 4

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u2": ml_dtypes.uint2,
    "u4": ml_dtypes.uint4,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}
BITS = {"i2": 2, "u2": 2, "i4": 4, "u4": 4, "f4e2m1": 4}
F8 = ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"]


def bits_of(values):
    return values.view(f"u{values.dtype.itemsize}")


def every_pattern(name):
    dtype = np.dtype(TYPES[name])
    codes = np.arange(1 << BITS.get(name, 8 * dtype.itemsize))
    if name in ("i2", "i4"):
        return codes.astype(np.int8).astype(dtype)
    return codes.astype(f"u{dtype.itemsize}").view(dtype)


def floats(dtype, random):
    """Random bit patterns; numbers of every small format, their halfway points and the neighbours
    of both; the special values. Ascending by bits."""
    info = np.finfo(dtype)
    uint = f"u{info.dtype.itemsize}"
    edges = [every_pattern(name).astype(np.float64) for name in F8 + ["f4e2m1"]]
    for name in ("f16", "bf16"):
        edges.append(random.choice(every_pattern(name), 400).astype(np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = []
        for edge in edges:
            edge = np.unique(edge[np.isfinite(edge)])
            numbers += [edge, (edge[1:] + edge[:-1]) / 2]
        exact = np.concatenate(numbers).astype(dtype)
        exact = exact[np.isfinite(exact)]
        picked = random.choice(exact, 1500)
        beside = np.concatenate(
            [np.nextafter(picked, dtype(np.inf)), np.nextafter(picked, dtype(-np.inf))]
        )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    limits = np.array([info.max, info.min, info.tiny, info.smallest_subnormal], dtype)
    wild = bits_of(random.integers(0, 1 << 63, 1000, dtype=np.uint64) * 2 + 1)
    wild = (wild >> (64 - 8 * info.dtype.itemsize)).astype(uint).view(dtype)
    wild = wild[~np.isnan(wild)]
    values = np.concatenate([random.choice(exact, 1500), beside, special, limits, wild])
    values = np.concatenate([values, np.copysign(special, dtype(-1))])
    return np.unique(bits_of(values)).view(dtype)


def integers(name, random):
    info = np.iinfo(TYPES[name])
    bits = info.dtype.itemsize * 8
    spread = random.integers(0, 1 << 63, 400, dtype=np.uint64) >> random.integers(
        64 - bits, 63, 400, dtype=np.uint64
    )
    values = [int(v) for v in spread] + [info.max, info.max - 1, info.min, 0, 1]
    # Numbers half a step from two neighbours in a small float, and one beside: where rounding
    # twice goes wrong.
    for power in range(12, bits - 1):
        for mantissa in (0x101, 0x103, 0x801, 0x1000001):
            if mantissa.bit_length() < power:
                half = mantissa << (power - mantissa.bit_length())
                values += [half - 1, half, half + 1]
    if info.min < 0:
        values += [-v for v in values]
    values = [v for v in values if info.min <= v <= info.max]
    return np.unique(bits_of(np.array(values, info.dtype))).view(info.dtype)


def round_integers(values, name):
    """Integers to a float, half to even; ml_dtypes would round to f32 first."""
    mantissa_bits = {"f16": 10, "bf16": 7}[name]
    result = []
    for value in (int(v) for v in values):
        magnitude = abs(value)
        drop = max(magnitude.bit_length() - mantissa_bits - 1, 0)
        low, magnitude = magnitude & ((1 << drop) - 1), magnitude >> drop
        tie = (1 << drop) >> 1
        magnitude += drop > 0 and (low > tie or (low == tie and magnitude & 1))
        result.append(float(np.copysign(magnitude << drop, value)))
    return np.array(result).astype(TYPES[name])


def round_floats(values, name):
    """f64 to a smaller float, half to even, by looking it up among all numbers of the type;
    ml_dtypes would round to f32 first. Special values and overflows are left to ml_dtypes."""
    dtype = TYPES[name]
    numbers = every_pattern(name).astype(np.float64)
    numbers = np.unique(np.abs(numbers[np.isfinite(numbers)]))
    numbers = np.append(numbers, 2 * numbers[-1] - numbers[-2])  # the first that is too large
    middles = (numbers[1:] + numbers[:-1]) / 2
    magnitudes = np.abs(values)
    index = np.searchsorted(middles, magnitudes)  # of the nearest; of the lower one in a tie
    tie = index < len(middles)
    tie[tie] = middles[index[tie]] == magnitudes[tie]
    index = np.minimum(index + (tie & (index % 2 == 1)), len(numbers) - 1)
    is_exact = np.isfinite(values) & (index < len(numbers) - 1)
    return np.where(is_exact, np.copysign(numbers[index], values), values).astype(dtype)


def to_float(values, name):
    is_small = name not in ("f32", "f64", "f16")
    if values.dtype == np.float64 and is_small:
        return round_floats(values, name)
    return values.astype(TYPES[name])


def saturated(values, name):
    limit = values.dtype.type(ml_dtypes.finfo(TYPES[name]).max)
    return to_float(np.clip(values, -limit, limit), name)


def records():
    random = np.random.default_rng(2024)
    with np.errstate(all="ignore"):
        for name in TYPES:
            if np.dtype(TYPES[name]).itemsize <= 2 and name != "bool":
                values = every_pattern(name)
                yield name, "f32", SATURATE, values, values.astype(np.float32)
        for source in ("f32", "f64"):
            values = floats(TYPES[source], random)
            yield source, "bool", SATURATE, values, values.astype(np.bool_)
            for name in ["f32", "f64", "f16", "bf16", "f4e2m1"]:
                if name != source:
                    yield source, name, SATURATE, values, to_float(values, name)
            for name in F8:
                yield source, name, SATURATE, values, saturated(values, name)
                yield source, name, 0, values, to_float(values, name)
            whole = values[np.abs(values) < 2.0**31]
            for name in ["i2", "i4", "i8", "i16", "i32", "i64", "u2", "u4", "u8", "u16"]:
                yield source, name, SATURATE, whole, whole.astype(TYPES[name])
            whole = whole[whole > -1]
            for name in ["u32", "u64"]:
                yield source, name, SATURATE, whole, whole.astype(TYPES[name])
            if source == "f64":
                continue
            # ONNX's reference is right where f32 is normal and not infinite.
            scales = values[(values >= 2.0**-126) & (values < np.inf)]
            for rounding, mode in ((UP, "up"), (DOWN, "down"), (NEAREST, "nearest")):
                for saturate in (0, SATURATE):
                    codes = onnx.numpy_helper.to_float8e8m0(scales, bool(saturate), mode)
                    yield source, "f8e8m0", rounding | saturate, scales, codes
        for source in ("i32", "i64", "u32", "u64"):
            values = integers(source, random)
            for name in ("f32", "f64", "i4", "u2", "i8", "u16", "i32", "u32", "i64", "u64"):
                if name != source:
                    yield source, name, SATURATE, values, values.astype(TYPES[name])
            for name in ("f16", "bf16"):
                yield source, name, SATURATE, values, round_integers(values, name)


def stored(values, name):
    bits = bits_of(values)
    if name in BITS:
        bits = bits & ((1 << BITS[name]) - 1)
    steps = np.diff(bits, prepend=bits.dtype.type(0)).astype(bits.dtype.newbyteorder("<"))
    return steps.view(np.uint8).reshape(len(steps), -1).T.tobytes()


def text(name):
    return struct.pack("<B", len(name)) + name.encode()


def build():
    data = b""
    before = None
    for source, target, options, values, results in records():
        is_new = values is not before
        before = values
        data += text(source) + text(target) + struct.pack("<BBI", options, is_new, len(values))
        data += (stored(values, source) if is_new else b"") + stored(results, target)
    return data


def main():
    data = build()
    if "--check" in sys.argv[1:]:
        if gzip.decompress(PATH.read_bytes()) != data:
            sys.exit(f"{PATH.name} differs from what this script writes: run it without --check")
        print(f"{PATH.name} holds what this script writes")
    else:
        PATH.write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{PATH.name}: {len(data)} bytes, {PATH.stat().st_size} compressed")


main()
