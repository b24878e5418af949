# SPDX-License-Identifier: MIT
"""Random blocks of every quantised type of GGUF as Lathe holds them, beside the dequantisation of the package gguf:
as a head, by whole prompts and by single tokens, whose logits are the matrix; and as embeddings.

usage: gguf_blocks.py [TYPE…]        requires the Python packages gguf and numpy"""

import pathlib
import sys
import tempfile

import gguf
import numpy as np

from probe import Probe, Refused
from write_gguf import write_one_layer

# Bytes at which a block has f16 factors; MXFP4 has an exponent in its first byte.
FACTORS = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
           "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": ()}
BLOCKS = {"cpu": 100_000, "ref": 4_000}
WIDTH = 256
EMBEDDED = 8 * WIDTH  # tokens looked up
LIMIT = 1e-6  # of the block's largest


def random_blocks(kind, count, random):
    """u8 [count, bytes]: all bits random, factors finite and of all sizes."""
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (count, size), np.uint8)
    for at in FACTORS[kind]:
        factors = random.integers(0, 0x7c00, count, np.uint16) | random.integers(0, 2, count, np.uint16) << 15
        blocks[:, at:at + 2] = factors.astype("<u2").view(np.uint8).reshape(count, 2)
    if kind == "MXFP4":
        blocks[:, 0] = random.integers(70, 180, count)  # whose squares are finite
    return blocks.reshape(-1, WIDTH // elements * size)


def unit_rows(rows):
    """f32 [tokens, WIDTH]: the identity, then zeros."""
    return np.eye(rows, WIDTH, dtype=np.float32)


def write_model(path, embedding, head):
    """A layer that adds nothing to the embeddings, whose norm keeps the identity."""
    zeros = np.zeros((WIDTH, WIDTH), np.float32)
    tensors = {"output_norm.weight": np.full(WIDTH, WIDTH ** -0.5, np.float32),
               **{f"blk.0.{name}.weight": zeros
                  for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}}
    write_one_layer(path, "llama", WIDTH, embedding, head, tensors,
                    {"context_length": 2 * WIDTH, "attention.layer_norm_rms_epsilon": 1e-30})


def check_rows(got, expected, elements, what):
    """Nothing, or the largest difference as a part of its block's largest element."""
    errors = np.abs(got.astype(np.float64) - expected).reshape(-1, elements).max(1)
    largest = np.abs(expected).reshape(-1, elements).max(1)
    part = np.max(errors / np.maximum(largest, 1e-300))
    if not part <= LIMIT:
        yield f"{what}: {part:.3g} of the block's largest, allowed {LIMIT}"


def check(probe, kind, target, folder):
    elements, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random_blocks(kind, BLOCKS[target], np.random.default_rng(1))
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind]).astype(np.float64)
    rows = len(blocks)
    stored = (kind, (rows, WIDTH), blocks)
    prompt = list(range(WIDTH))
    try:
        write_model(folder / "head.gguf", unit_rows(rows), stored)
        model = {"folder": str(folder / "head.gguf"), "target": target, "compute": "f32", "threads": 2}
        yield from check_rows(probe.logits(model, [prompt]).T, expected, elements, "head, whole prompt")
        yield from check_rows(probe.logits(model, [prompt], parts=[1]).T, expected, elements, "head, single tokens")
        write_model(folder / "embedding.gguf", stored, unit_rows(rows))
        model["folder"] = str(folder / "embedding.gguf")
        looked = expected[:EMBEDDED]
        scaled = looked / np.sqrt((looked ** 2).mean(1, keepdims=True) + 1e-30) * WIDTH ** -0.5
        got = [probe.logits(model, [list(range(first, min(first + WIDTH, len(looked))))])[:, :WIDTH]
               for first in range(0, len(looked), WIDTH)]
        yield from check_rows(np.concatenate(got), scaled, elements, "embedding")
    except Refused as refused:
        yield str(refused)


def main():
    only = sys.argv[1:]
    passed = failed = 0
    with Probe() as probe, tempfile.TemporaryDirectory() as folder:
        for kind in FACTORS:
            if only and kind not in only:
                continue
            for target in BLOCKS:
                problems = list(check(probe, kind, target, pathlib.Path(folder)))
                for problem in problems:
                    print(f"wrong: {kind} on {target}: {problem[:600]}", file=sys.stderr)
                passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
