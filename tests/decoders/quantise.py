# SPDX-License-Identifier: MIT
"""Writes tiny Hugging Face folders as quantisers do, and beside each the same model with the dequantised weights."""

import json
import struct

import numpy as np

# Layers that quantisers leave as they are.
PLAIN = ("embed", "norm", "lm_head", "router", "gate.weight", "conv")


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


def gptq(name, weight, random, bits, group, symmetric=True, shuffled=False, version=1):
    rows, columns = weight.shape
    group = columns if group < 0 else group
    order = random.permutation(columns) if shuffled else np.arange(columns)
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


def write_pair(source, folder, method, settings, quantise, seed=1, **options):
    """folder/quantised, and folder/plain with the dequantised weights in f32."""
    config = json.loads((source / "config.json").read_text())
    random = np.random.default_rng(seed)
    quantised, plain = {}, {}
    for name, weight in read_tensors(source):
        plain[name] = quantised[name] = weight
        if weight.ndim == 2 and not any(part in name for part in PLAIN):
            del quantised[name]
            *parts, (_, plain[name]) = quantise(name, weight, random, **options)
            quantised.update(parts)
    folder.mkdir()
    write_folder(folder / "plain", config, plain)
    write_folder(folder / "quantised", {**config, "quantization_config": {"quant_method": method, **settings}}, quantised)
