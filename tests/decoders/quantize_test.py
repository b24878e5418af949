# SPDX-License-Identifier: MIT
"""--quantize int8 and int4 on Hugging Face folders of the zoo: the mean KL divergence to the folder itself, beside that
of weights rounded to symmetric 4 bits. Compiled files, also of a quantised folder, hold the same weights."""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import quantise
import zoo
from probe import PROGRAM, Probe, Refused

LATHE = PROGRAM.parent.parent / "bin" / "lathe"
GPTQ = {"bits": 4, "group_size": 32, "desc_act": False, "sym": True, "checkpoint_format": "gptq"}
PROMPT = [1] + [(37 * i) % 500 + 3 for i in range(63)]


def divergence(expected, got):
    def log_probabilities(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    p, q = log_probabilities(expected), log_probabilities(got)
    return (np.exp(p) * (p - q)).sum(-1).mean()


def round_to_4_bits(name, weight, random):
    """Symmetric, a scale per 32 inputs: what is compared with."""
    del random
    codes, scale, zero = quantise.fit(weight, 4, 32, True)
    yield name, quantise.value(codes, scale, zero, np.arange(weight.shape[1]) // 32)
    yield name, quantise.value(codes, scale, zero, np.arange(weight.shape[1]) // 32)


def check(probe, kind, work):
    folder = zoo.ZOO / kind / "hf"
    model = {"folder": str(folder), "target": "cpu", "compute": "f32"}
    expected = probe.logits(model, [PROMPT])
    quantise.write_pair(folder, work / kind, "none", {}, round_to_4_bits)
    symmetric = divergence(expected, probe.logits({**model, "folder": str(work / kind / "plain")}, [PROMPT]))
    for target in ("ref", "cpu"):
        found = {}
        for bits in ("int8", "int4"):
            got = probe.logits({**model, "target": target, "quantize": bits}, [PROMPT])
            found[bits] = divergence(expected, got)
        if not found["int8"] <= symmetric / 50:
            yield f"int8 on {target} has the divergence {found['int8']:.2g}, symmetric 4 bits {symmetric:.2g}"
        print(f"{kind} on {target}: int8 {found['int8']:.2g}, int4 {found['int4']:.2g}, symmetric 4 bits {symmetric:.2g}")
        if not found["int4"] <= 0.7 * symmetric:
            yield f"int4 on {target} has the divergence {found['int4']:.2g}, symmetric 4 bits {symmetric:.2g}"


def check_commands(folder):
    run = subprocess.run([LATHE, "explain", folder, "--quantize", "int4", "--json"], capture_output=True, text=True)
    launches = json.dumps(json.loads(run.stdout)["launches"]) if run.returncode == 0 else ""
    if "matmul_n_bits" not in launches:
        yield f"explain shows no quantised products: {run.stderr}"
    run = subprocess.run([LATHE, "generate", folder, "--ids", "1", "--quantize", "int5"], capture_output=True, text=True)
    if (run.returncode, run.stderr.splitlines()[:1]) != (
            2, ["error: --quantize is 'int5' (did you mean 'int8'?), expected one of: none, int8, int4"]):
        yield f"exit code {run.returncode}: {run.stderr}"


def check_compiled(probe, folder, file, quantize):
    """A compiled file of the folder runs as the folder does."""
    model = {"target": "cpu", "compute": "as_model"}
    run = subprocess.run([LATHE, "compile", folder, "-o", file, "--quantize", quantize], capture_output=True, text=True)
    if run.returncode != 0:
        yield f"compile --quantize {quantize}: {run.stderr}"
        return
    expected = probe.logits({**model, "folder": str(folder), "quantize": quantize}, [PROMPT])
    got = probe.logits({**model, "folder": str(file)}, [PROMPT])
    if got.tobytes() != expected.tobytes():
        yield f"compiled with --quantize {quantize}: logits are {np.abs(got - expected).max()} away"


def main():
    passed = failed = 0
    if not zoo.ZOO.exists():
        print(f"skipped: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for kind in ("llama", "qwen3", "gemma2"):
            try:
                problems = list(check(probe, kind, pathlib.Path(work)))
            except Refused as refused:
                problems = [str(refused)]
            problems += check_commands(zoo.ZOO / kind / "hf")
            try:
                for quantize in ("none", "int4", "int8"):
                    problems += check_compiled(probe, zoo.ZOO / kind / "hf", pathlib.Path(work) / "a.lathe", quantize)
                if kind == "llama":
                    made = pathlib.Path(work) / "gptq"
                    quantise.write_pair(zoo.ZOO / kind / "hf", made, "gptq", GPTQ, quantise.gptq, bits=4, group=32)
                    problems += check_compiled(probe, made / "quantised", pathlib.Path(work) / "a.lathe", "none")
            except Refused as refused:
                problems.append(str(refused))
            for problem in problems:
                print(f"wrong: {kind}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
