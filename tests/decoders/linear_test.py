# SPDX-License-Identifier: MIT
"""A decoder with short convolutions and linear attention instead of KV caches: logits against ONNX Runtime, and equal
bits for any chunks and batches, on each target."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

from probe import PROGRAM, Probe

PROMPTS = [[(7 * i * i + 3 * i + 5 * n) % 61 for i in range(length)] for n, length in enumerate((15, 8, 7, 1, 50, 22))]
KERNELS = {"ref": ("ref.sequence_conv", "ref.sequence_linear_attention"),
           "cpu": ("cpu.sequence_conv", "cpu.sequence_linear_attention")}


def reference(folder, tokens, part):
    """Logits [tokens, vocabulary] of ONNX Runtime in parts of this many tokens."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    states = {i.name: np.zeros([1, *i.shape[1:]], np.float32) for i in session.get_inputs() if i.name != "input_ids"}
    presents = [o.name for o in session.get_outputs()][1:]
    found = []
    for begin in range(0, len(tokens), part):
        logits, *given = session.run(["logits", *presents], {"input_ids": [tokens[begin:begin + part]], **states})
        states = {name.replace("present", "past"): state for name, state in zip(presents, given)}
        found.append(logits[0])
    return np.concatenate(found)


def check(probe, folder, target):
    model = {"folder": str(folder), "target": target}
    notes = probe.ask({**model, "notes": True})
    if not notes["packed"] or {state["kind"] for state in notes["states"]} != {"carry"}:
        yield f"not packed, or other states: {notes}"
    command = [PROGRAM.parent.parent / "bin" / "lathe", "explain", folder, "--target", target]
    explained = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for kernel in KERNELS[target]:
        if kernel not in explained:
            yield f"no {kernel} in {explained}"
    alone = probe.logits(model, PROMPTS, together=False)
    expected = np.concatenate([reference(folder, prompt, 50) for prompt in PROMPTS])
    if not np.abs(alone - expected).max() <= 5e-5:
        yield f"logits are {np.abs(alone - expected).max()} away from ONNX Runtime's"
    for threads in (1, 2):
        for parts in ((), (1,), (16,), (7, 1)):
            for together in (True, False):
                got = probe.logits({**model, "threads": threads}, PROMPTS, parts, together)
                if got.tobytes() != alone.tobytes():
                    yield f"other bits on {threads} threads in parts of {parts}, {'together' if together else 'alone'}"


def main():
    passed, failed = 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        script = pathlib.Path(__file__).with_name("make_linear_decoder.py")
        subprocess.run([sys.executable, script, folder], check=True)
        for target in KERNELS:
            problems = list(check(probe, folder, target))
            for problem in problems:
                print(f"wrong: {target}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
