# SPDX-License-Identifier: MIT
"""Folders of the zoo as quantisers write them: logits and greedy tokens of the same model with the dequantised
weights, which checkpoints_test.py compares with Transformers."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import quantise
import zoo
from probe import PROGRAM, Probe, Refused

LATHE = PROGRAM.parent.parent / "bin" / "lathe"
TARGETS = ("ref", "cpu")
GPTQ = {"bits": 4, "group_size": 32, "desc_act": False, "sym": True, "checkpoint_format": "gptq"}
PROMPT = [1] + [(37 * i) % 500 + 3 for i in range(32)]
# name: type of the zoo, method, settings, quantiser, its options; the tolerance, of logits of spread 3
INT = {"format": "pack-quantized"}
CASES = {
    "gptq": ("llama", "gptq", GPTQ, quantise.gptq, {"bits": 4, "group": 32}),
    "gptq act-order": ("qwen3", "gptq", {**GPTQ, "desc_act": True}, quantise.gptq,
                       {"bits": 4, "group": 32, "shuffled": True}),
    "gptq act-order, one group": ("llama", "gptq", {**GPTQ, "group_size": -1, "desc_act": True}, quantise.gptq,
                                  {"bits": 4, "group": -1, "shuffled": True}),
    "gptq asymmetric": ("qwen2", "gptq", {**GPTQ, "group_size": 16, "sym": False}, quantise.gptq,
                        {"bits": 4, "group": 16, "symmetric": False}),
    "gptq version 2, 8 bits": ("llama", "gptq", {**GPTQ, "bits": 8, "checkpoint_format": "gptq_v2"}, quantise.gptq,
                               {"bits": 8, "group": 32, "symmetric": False, "version": 2}),
    "gptq 2 bits": ("gemma2", "gptq", {**GPTQ, "bits": 2, "group_size": 16}, quantise.gptq,
                    {"bits": 2, "group": 16, "symmetric": False}),
    "awq": ("llama", "awq", {"bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}, quantise.awq,
            {"group": 32}),
    "int4": ("qwen3", "compressed-tensors", INT, quantise.packed, {"bits": 4, "group": 32}),
    "int4 asymmetric, act-order": ("llama", "compressed-tensors", INT, quantise.packed,
                                   {"bits": 4, "group": 32, "symmetric": False, "shuffled": True}),
    "int4 by channel": ("llama", "compressed-tensors", INT, quantise.packed, {"bits": 4, "group": -1}),
    "int8 packed": ("qwen2", "compressed-tensors", INT, quantise.packed, {"bits": 8, "group": 32}),
    "int8": ("llama", "compressed-tensors", {"format": "int-quantized"}, quantise.int8, {}),
    "int8, one scale": ("llama", "compressed-tensors", {"format": "int-quantized"}, quantise.int8, {"whole": True}),
    "fp8 by channel": ("llama", "compressed-tensors", {"format": "float-quantized"}, quantise.fp8,
                       {"suffix": "_scale"}),
    "fp8 by block": ("qwen3", "fp8", {"weight_block_size": [32, 32]}, quantise.fp8, {"block": (32, 32)}),
    "fp8, as many blocks as rows": ("llama", "fp8", {"weight_block_size": [32, 2]}, quantise.fp8, {"block": (32, 2)}),
    "mxfp4": ("gpt_oss", "mxfp4", {}, quantise.mxfp4, {}),
    "experts in gptq": ("mixtral", "gptq", GPTQ, quantise.gptq, {"bits": 4, "group": 32}),
    "experts in gptq, act-order": ("mixtral", "gptq", {**GPTQ, "desc_act": True}, quantise.gptq,
                                   {"bits": 4, "group": 32, "shuffled": True}),
    "experts in gptq, an order of each": ("mixtral", "gptq", {**GPTQ, "desc_act": True}, quantise.gptq,
                                          {"bits": 4, "group": 32, "shuffled": "each"}),
    "experts in int4, act-order": ("qwen3_moe", "compressed-tensors", INT, quantise.packed,
                                   {"bits": 4, "group": 32, "symmetric": False, "shuffled": True}),
    "experts in gptq, asymmetric": ("phimoe", "gptq", {**GPTQ, "sym": False}, quantise.gptq,
                                    {"bits": 4, "group": 32, "symmetric": False}),
    "experts in awq": ("qwen3_moe", "awq", {"bits": 4, "group_size": 32, "version": "gemm", "zero_point": True},
                       quantise.awq, {"group": 32}),
    "experts in int8": ("qwen3_moe unnormalised", "compressed-tensors", INT, quantise.packed, {"bits": 8, "group": 32}),
}


def check_experts(folder, name):
    """Experts stay codes, but for those whose gates and values have their inputs in unlike orders."""
    run = subprocess.run([LATHE, "explain", folder, "--json"], capture_output=True, text=True)
    launches = json.dumps(json.loads(run.stdout)["launches"]) if run.returncode == 0 else run.stderr
    if ("qmoe" in launches) == ("order of each" in name):
        yield f"how experts are held: {launches}"


def source_of(kind, work):
    """The zoo's folder of a type, unpacked if need be; "unnormalised": weights of the experts do not add up to 1."""
    name = kind.split()[0]
    if (zoo.ZOO / name).is_dir():
        return zoo.ZOO / name / "hf"
    if not (work / name).exists():
        subprocess.run(["tar", "--zstd", "-xf", zoo.ZOO / f"{name}.tar.zst", "-C", work], check=True)
    if kind == name:
        return work / name / "hf"
    shutil.copytree(work / name / "hf", work / kind / "hf")
    config = json.loads((work / name / "hf" / "config.json").read_text())
    (work / kind / "hf" / "config.json").write_text(json.dumps({**config, "norm_topk_prob": False}))
    return work / kind / "hf"


def check(probe, folder, target):
    """The quantised folder beside the other one."""
    plain = {"folder": str(folder / "plain"), "target": target, "compute": "f32"}
    quantised = {**plain, "folder": str(folder / "quantised")}
    try:
        expected, got = probe.logits(plain, [PROMPT]), probe.logits(quantised, [PROMPT])
        distance = np.abs(got - expected).max()
        if not (distance <= 1e-4 and np.ptp(expected) > 1):
            yield f"logits of spread {np.ptp(expected)} are {distance} away, allowed 1e-4"
        wanted = probe.generate(plain, [PROMPT], max_new_tokens=12)[0][0]["ids"]
        ids = probe.generate(quantised, [PROMPT], max_new_tokens=12)[0][0]["ids"]
        if ids != wanted:
            yield f"greedy: {ids}, dequantised {wanted}"
        # As the file has it: int8 activations, whose rounding must not change the answer's direction.
        got = probe.logits({**quantised, "compute": "as_model"}, [PROMPT])
        if not np.corrcoef(got.ravel(), expected.ravel())[0, 1] > 0.99:
            yield "logits with int8 activations are unlike those in f32"
    except Refused as refused:
        yield str(refused)


def main():
    only = sys.argv[1:]
    passed = failed = 0
    if not zoo.ZOO.exists():
        print(f"skipped: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for name, (kind, method, settings, quantiser, options) in CASES.items():
            if only and name not in only:
                continue
            folder = pathlib.Path(work) / name.replace(" ", "-").replace(",", "")
            quantise.write_pair(source_of(kind, pathlib.Path(work)), folder, method, settings, quantiser, **options)
            for target in TARGETS:
                problems = list(check(probe, folder, target))
                if target == "cpu" and ("experts" in name or name == "mxfp4"):
                    problems += check_experts(folder / "quantised", name)
                for problem in problems:
                    print(f"wrong: {name} on {target}: {problem[:600]}", file=sys.stderr)
                passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
