# SPDX-License-Identifier: MIT
"""Experts of random blocks of every quantised type of GGUF, beside the same experts as float32, which the package gguf
dequantises: apart and joined gates and values, with biases, in f32 and as the file states.

usage: gguf_experts.py [TYPE…]        requires the Python packages gguf and numpy"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

from gguf_blocks import FACTORS
from probe import Probe, Refused
from write_gguf import write_one_layer

WIDTH, INNER, EXPERTS, ROWS = 256, 512, 4, 128
LIMITS = {"f32": 1e-4, "as_model": 5e-2}  # of the largest logit; as_model: activations of 8 bits


def random_experts(kind, outputs, inputs, random):
    """u8 [EXPERTS, outputs, bytes] whose values are of a weight's size, and their values."""
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (EXPERTS * outputs * inputs // elements, size), np.uint8)
    for at in FACTORS[kind]:
        factors = random.uniform(0.5, 1, len(blocks)).astype(np.float16)
        blocks[:, at:at + 2] = factors.view(np.uint8).reshape(-1, 2)
    if kind in ("Q4_1", "Q5_1"):  # values of both signs
        middle = -blocks[:, :2].copy().view(np.float16) * np.float16(7.5 if kind == "Q4_1" else 15.5)
        blocks[:, 2:4] = middle.view(np.uint8)
    if kind == "MXFP4":
        blocks[:, 0] = random.integers(118, 122, len(blocks))
    else:  # scaled as a whole, by their f16 factors
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
        scale = 0.05 / np.abs(values).max() * 4
        for at in FACTORS[kind]:
            factors = blocks[:, at:at + 2].copy().view(np.float16) * np.float16(scale)
            blocks[:, at:at + 2] = factors.view(np.uint8)
    values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind]).reshape(EXPERTS, outputs, inputs)
    return (kind, values.shape, blocks.reshape(EXPERTS * outputs, -1)), values.astype(np.float32)


def write_models(folder, kind, joined, random):
    """The file with blocks, then that with floats."""
    shape = (("ffn_gate_up_exps", 2 * INNER, WIDTH),) if joined else (("ffn_gate_exps", INNER, WIDTH),
                                                                     ("ffn_up_exps", INNER, WIDTH))
    normal = lambda *dims: random.normal(0, 0.05, dims).astype(np.float32)
    embedding, head = normal(ROWS, WIDTH), normal(ROWS, WIDTH)
    common = {"blk.0.ffn_gate_inp.weight": 10 * normal(EXPERTS, WIDTH),
              **{f"blk.0.{name}.weight": normal(WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")},
              **{f"blk.0.attn_{x}_norm.weight": np.ones(WIDTH // 4, np.float32) for x in "qk"}}
    blocks, floats = dict(common), dict(common)
    for name, outputs, inputs in (*shape, ("ffn_down_exps", WIDTH, INNER)):
        blocks[f"blk.0.{name}.weight"], floats[f"blk.0.{name}.weight"] = random_experts(kind, outputs, inputs, random)
        if not joined:
            blocks[f"blk.0.{name}.bias"] = floats[f"blk.0.{name}.bias"] = normal(EXPERTS, outputs)
    keys = {"attention.key_length": WIDTH // 4, "context_length": 256, "expert_count": EXPERTS,
            "attention.layer_norm_rms_epsilon": 1e-6, "expert_used_count": 2, "expert_feed_forward_length": INNER,
            "rope.freq_base": 10000.0}
    for path, tensors in ((folder / "blocks.gguf", blocks), (folder / "floats.gguf", floats)):
        write_one_layer(path, "qwen3moe", WIDTH, embedding, head, tensors, keys)
        yield path


def check(probe, kind, target, joined, folder):
    blocks, floats = write_models(folder, kind, joined, np.random.default_rng(1))
    prompt = [(37 * i + 11) % ROWS for i in range(40)]
    try:
        expected = probe.logits({"folder": str(floats), "target": target, "compute": "f32"}, [prompt])
        for compute, limit in LIMITS.items():
            model = {"folder": str(blocks), "target": target, "compute": compute, "threads": 2}
            for parts in ((), (39,)):
                got = probe.logits(model, [prompt], parts)
                distance = np.abs(got - expected).max() / np.abs(expected).max()
                if not distance <= limit:
                    yield f"{compute}, parts of {parts}: {distance:.3g} of the largest logit, allowed {limit}"
        run = subprocess.run([os.environ["TEST_PROGRAM"], "explain", blocks, "--target", target, "--json"],
                             capture_output=True, text=True)
        if f"{target}.qmoe" not in run.stdout:
            launches = [launch.get("kernel") for launch in json.loads(run.stdout or "{}").get("launches", [])]
            yield f"no kernel of {target} has the blocks: {launches} {run.stderr}"
    except Refused as refused:
        yield str(refused)


def main():
    only = sys.argv[1:]
    passed = failed = 0
    with Probe() as probe, tempfile.TemporaryDirectory() as folder:
        for kind in only or FACTORS:
            for target in ("cpu", "ref"):
                for joined in (False, True):
                    problems = list(check(probe, kind, target, joined, pathlib.Path(folder)))
                    for problem in problems:
                        print(f"wrong: {kind} on {target}, {'joined' if joined else 'apart'}: {problem[:600]}", file=sys.stderr)
                    passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
