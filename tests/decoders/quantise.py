# SPDX-License-Identifier: MIT
"""Writes tiny Hugging Face folders as quantisers do, and beside each the same model with the dequantised weights."""

import json
import re
import struct
import zlib

import numpy as np

# Layers that quantisers leave as they are.
PLAIN = ("embed", "norm", "lm_head", "router", "gate.weight", "conv")
E4M3 = np.array([(-1.0 if b & 128 else 1.0) * ((b & 7) / 8 * 2.0**-6 if b >> 3 & 15 == 0 else (1 + (b & 7) / 8) *
                 2.0**((b >> 3 & 15) - 7)) for b in range(256)], np.float32)
E4M3[[127, 255]] = np.nan
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def read_tensors(folder):
    """The tensors of a safetensors file, bf16 as f32."""
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for name, info in header.items():
        part = data[8 + size:][slice(*info["data_offsets"])]
        wide = np.frombuffer(part, "<u2").astype("<u4") << 16 if info["dtype"] == "BF16" else np.frombuffer(part, "<u4")
        yield name, wide.view("<f4").reshape(info["shape"])


KINDS = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64", "int8": "I8", "uint8": "U8"}


def write_folder(folder, config, tensors):
    """Arrays, or pairs of a type's name and an array of bytes."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    header, parts, at = {}, [], 0
    for name, value in tensors.items():
        kind, array = value if isinstance(value, tuple) else (KINDS[value.dtype.name], value)
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def pack(codes, bits):
    """Words of codes along the last axis, low bits first; the end is padded."""
    count = 32 // bits
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % count)])
    parts = codes.astype(np.uint32).reshape(*codes.shape[:-1], -1, count)
    return np.bitwise_or.reduce(parts << (np.arange(count, dtype=np.uint32) * bits), -1).view(np.int32)


def fit(weight, bits, group, symmetric):
    """Codes [outputs, inputs], scales f16 and zero points [outputs, groups] of groups along the inputs."""
    parts = weight.reshape(len(weight), -1, group)
    top = 2**bits - 1
    if symmetric:
        scale = np.abs(parts).max(-1) / (top // 2)
        zero = np.full(scale.shape, top // 2 + 1)
    else:
        least, most = np.minimum(parts.min(-1), 0), np.maximum(parts.max(-1), 0)
        scale = (most - least) / top
        zero = np.rint(-least / np.maximum(scale, 1e-9)).astype(int).clip(0, top)
    scale = np.maximum(scale, 1e-4).astype(np.float16)
    codes = np.rint(parts / scale.astype(np.float32)[..., None] + zero[..., None]).clip(0, top).astype(int)
    return codes.reshape(weight.shape), scale, zero


def value(codes, scale, zero, groups):
    """f32 of codes, where `groups` has the group of each column."""
    return (codes - zero[:, groups]).astype(np.float32) * scale.astype(np.float32)[:, groups]


def order_of(name, columns, shuffled, random):
    """act-order, by the statistics of inputs: matrices of the same inputs share it, unless "each" has its own."""
    if not shuffled:
        return np.arange(columns)
    stem = re.sub(r"(w1|w3|gate_proj|up_proj)\.weight$", "inputs", name)
    return (random if shuffled == "each" else np.random.default_rng(zlib.crc32(stem.encode()))).permutation(columns)


def gptq(name, weight, random, bits, group, symmetric=True, shuffled=False, version=1):
    rows, columns = weight.shape
    group = columns if group < 0 else group
    order = order_of(name, columns, shuffled, random)
    groups = np.empty(columns, int)
    groups[order] = np.arange(columns) // group
    sorted_codes, scale, zero = fit(weight[:, order], bits, group, symmetric)
    codes = np.empty_like(sorted_codes)
    codes[:, order] = sorted_codes
    stored = (zero - (version == 1)) & (2**bits - 1)
    stem = name.removesuffix(".weight")
    yield stem + ".qweight", pack(codes, bits).T
    yield stem + ".qzeros", pack(stored.T, bits)
    yield stem + ".scales", scale.T
    yield stem + ".g_idx", groups.astype(np.int32)
    yield name, value(codes, scale, zero, groups)


def awq(name, weight, random, group):
    del random
    codes, scale, zero = fit(weight, 4, group, False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = lambda rows: pack(rows.reshape(len(rows), -1, 8)[..., order].reshape(rows.shape), 4)
    stem = name.removesuffix(".weight")
    yield stem + ".qweight", interleaved(codes.T)
    yield stem + ".qzeros", interleaved(zero.T)
    yield stem + ".scales", scale.T
    yield name, value(codes, scale, zero, np.arange(weight.shape[1]) // group)


def packed(name, weight, random, bits, group, symmetric=True, shuffled=False):
    """compressed-tensors, pack-quantized."""
    rows, columns = weight.shape
    group = columns if group < 0 else group
    groups = order_of(name, columns, shuffled, random) // group
    order = np.argsort(groups, kind="stable")
    sorted_codes, scale, zero = fit(weight[:, order], bits, group, symmetric)
    codes = np.empty_like(sorted_codes)
    codes[:, order] = sorted_codes
    stem = name.removesuffix(".weight")
    yield stem + ".weight_packed", pack(codes, bits)
    yield stem + ".weight_shape", np.array(weight.shape, np.int64)
    yield stem + ".weight_scale", scale
    if not symmetric:
        yield stem + ".weight_zero_point", pack(zero.T, bits).T
    if shuffled:
        yield stem + ".weight_g_idx", groups.astype(np.int32)
    yield name, value(codes, scale, zero, groups)


def int8(name, weight, random, whole=False):
    """compressed-tensors, int-quantized: a scale per output, or one."""
    del random
    scale = np.abs(weight).max(None if whole else 1, keepdims=True).reshape(-1) / 127
    scale = scale.astype(np.float32) if whole else scale.astype(np.float32)[:, None]
    codes = np.rint(weight / scale).clip(-128, 127).astype(np.int8)
    yield name, codes
    yield name + "_scale", scale
    yield name, codes.astype(np.float32) * scale


def nearest_e4m3(values):
    order = np.argsort(E4M3[:127])
    levels = E4M3[:127][order]
    high = np.searchsorted((levels[1:] + levels[:-1]) / 2, np.abs(values))
    return (order[high] | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def rounded_bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32)


def fp8(name, weight, random, block=None, suffix="_scale_inv"):
    del random
    rows, columns = weight.shape
    tall, wide = block or (1, columns)
    pad = np.pad(np.abs(weight), [(0, -rows % tall), (0, -columns % wide)])
    largest = pad.reshape(len(pad) // tall, tall, -1, wide).max((1, 3))
    scale = (largest / 448).astype(np.float32)
    full = scale.repeat(tall, 0).repeat(wide, 1)[:rows, :columns]
    codes = nearest_e4m3(weight / full)
    yield name, ("F8_E4M3", codes)
    yield name + suffix, scale
    yield name, rounded_bf16(E4M3[codes] * full)


def mxfp4(name, weight, random):
    """Experts [experts, inputs, outputs]."""
    del random
    groups = weight.transpose(0, 2, 1).reshape(*weight.transpose(0, 2, 1).shape[:2], -1, 32)
    exponent = np.floor(np.log2(np.maximum(np.abs(groups).max(-1), 1e-30))).astype(int) - 2
    unit = groups / 2.0**exponent[..., None]
    codes = np.abs(unit[..., None] - FP4).argmin(-1)
    yield name + "_blocks", (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
    yield name + "_scales", (exponent + 127).astype(np.uint8)
    values = FP4[codes] * np.float32(2.0)**exponent[..., None].astype(np.float32)
    yield name, values.reshape(*groups.shape[:2], -1).transpose(0, 2, 1).astype(np.float32)


def write_pair(source, folder, method, settings, quantise, seed=1, **options):
    """folder/quantised, and folder/plain with the dequantised weights in f32."""
    config = json.loads((source / "config.json").read_text())
    random = np.random.default_rng(seed)
    quantised, plain = {}, {}
    for name, weight in read_tensors(source):
        experts = quantise is mxfp4
        chosen = ".experts." in name and weight.ndim == 3 if experts else (
            weight.ndim == 2 and not any(part in name for part in PLAIN))
        plain[name] = quantised[name] = weight
        if chosen:
            del quantised[name]
            *parts, (_, plain[name]) = quantise(name, weight, random, **options)
            quantised.update(parts)
    folder.mkdir()
    write_folder(folder / "plain", config, plain)
    write_folder(folder / "quantised", {**config, "quantization_config": {"quant_method": method, **settings}}, quantised)
