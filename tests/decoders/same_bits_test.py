# SPDX-License-Identifier: MIT
"""Every token's logits have the same bits in any chunks, alone or in a batch, on one thread or several. For states of
every kind, in every form, on each target."""

import itertools
import pathlib
import sys
import tempfile

import numpy as np

import zoo
from probe import Probe, Refused

# KV caches that grow, with a window, with both; convolutions; linear attention.
QUICK = ("llama", "gemma2", "gpt_oss", "lfm2", "qwen3_5")
LENGTHS = (1, 50, 7, 33, 16, 40, 5, 19)


def check(probe, model):
    prompts = [[(37 * i + 11 * n) % 500 + 5 for i in range(length)] for n, length in enumerate(LENGTHS)]
    alone = probe.logits({**model, "threads": 1}, prompts, together=False)
    for threads in (2,) if zoo.few() else (1, 2, 3):
        for parts in ((16,), (1,)) if zoo.few() else ((), (16,), (1,), (7, 1)):
            for together in (True, False):
                got = probe.logits({**model, "threads": threads}, prompts, parts, together)
                if got.tobytes() != alone.tobytes():
                    wrong = np.flatnonzero((got != alone).any(axis=1))
                    yield (f"{threads} threads, parts of {parts}, {'together' if together else 'alone'}: {len(wrong)} tokens "
                           f"differ, the first is {wrong[0]}, by {np.abs(got - alone).max()}")


def main():
    passed, failed = 0, 0
    if not zoo.ZOO.exists():
        print(f"skipped 1: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for t in zoo.types(pathlib.Path(work)):
            if t.name not in (zoo.FEW if zoo.few() else QUICK) and not zoo.FULL:
                continue
            for form in t.forms() if zoo.FULL else sorted({"fp32", "int4", "int4_acc4"} & set(t.forms())):
                computes = ("as_model", "int8", "bf16") if zoo.FULL or t.name == "llama" and not zoo.few() else ("as_model",)
                for target, compute in itertools.product(("ref", "cpu"), computes):
                    try:
                        problems = list(check(probe, {"folder": str(t.folder / form), "target": target, "compute": compute}))
                    except Refused as refused:
                        problems = [str(refused)]
                    for problem in problems:
                        print(f"wrong: {t.name} {form} on {target} in {compute}: {problem[:600]}", file=sys.stderr)
                    passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
