# SPDX-License-Identifier: MIT
"""Pipelines with separate prefill and decode stages: the tokens and bits of the decoder in one file if both kinds compute
the same, else each kind for its own tokens, in mixed steps, too."""

import copy
import json
import pathlib
import sys
import tempfile

import numpy as np

import make_stages
from probe import Probe, Refused

LENGTHS = (15, 8, 7, 1, 40, 22)
PROMPTS = [[(7 * i * i + 3 * i + 5 * n) % 31 for i in range(length)] for n, length in enumerate(LENGTHS)]
PARTS = ((), (1,), (16,), (7,), (7, 1, 1, 3))


def several(length, parts):
    """For each token, whether it ran as prefill."""
    sizes, left = [], length
    while left:
        size = min(parts[min(len(sizes), len(parts) - 1)], left) if parts else left
        sizes.append(size)
        left -= size
    return [size > 1 for size in sizes for _ in range(size)]


def same(probe, folder, target):
    whole, model = ({"folder": str(f), "target": target} for f in (folder / "whole", folder))
    notes = probe.ask({**model, "notes": True})
    if not notes["packed"] or not all(state["paged"] for state in notes["states"]):
        yield f"tokens are not packed: {notes['not_packed_reason']}"
    expected = probe.logits(whole, PROMPTS).tobytes()
    for parts in PARTS:
        for together in (True, False):
            if probe.logits(model, PROMPTS, parts, together).tobytes() != expected:
                yield f"logits differ from those of one file, in parts of {parts}, {'together' if together else 'alone'}"
    for options in ({}, {"chunk_size": 4}, {"num_beams": 3, "chunk_size": 1}):
        options = {"max_new_tokens": 12, **options}
        if probe.generate(model, PROMPTS, **options) != probe.generate(whole, PROMPTS, **options):
            yield f"tokens differ from those of one file with {options}"


def distinct(probe, folder, target):
    whole, model = ({"folder": str(f), "target": target} for f in (folder / "whole", folder))
    expected = probe.logits(whole, PROMPTS)
    for parts in PARTS:
        wanted = np.concatenate([several(length, parts) for length in LENGTHS])
        wanted = np.where(wanted[:, None], -expected, expected)
        for together in (True, False):
            got = probe.logits(model, PROMPTS, parts, together)
            if got.tobytes() != wanted.tobytes():
                yield f"tokens of the wrong kind, in parts of {parts}: {np.flatnonzero((got != wanted).any(axis=1))[:8]}"


def one_sequence_per_run(probe, folder, target):
    """Neither is packed if one cannot be: the maximum over all prefill tokens, or a reshape to one token, blocks packing."""
    whole, model = ({"folder": str(f), "target": target} for f in (folder / "whole", folder))
    notes = probe.ask({**model, "notes": True})
    if notes["packed"] or not notes["not_packed_reason"].startswith(("reduce_max ", "reshape ")):
        yield f"packed: {notes['packed']}, {notes['not_packed_reason']}"
    expected = probe.logits(whole, PROMPTS)
    for parts in PARTS:
        got = probe.logits(model, PROMPTS, parts)
        if not np.abs(got - expected).max() <= 2e-5:
            yield f"logits in parts of {parts} are {np.abs(got - expected).max()} away from those of one file"


def refused(probe, folder, config):
    def stage(changed, name):
        return changed["model"]["decoder"]["pipeline"][0][name]

    def drop(name):
        return lambda c: c["model"]["decoder"]["pipeline"][0].pop(name)

    for change, message in (
            (lambda c: [stage(c, s).update(run_on_token_gen=False) for s in ("embeds", "token_layers", "token_head")],
             "3 stages that run on prompts and 0 that run on single tokens"),
            (drop("prompt_head"), "the program has no output 'logits'"),
            (drop("token_layers"), "is 'past_key_values.0.key', but the model has no such input"),
            (lambda c: stage(c, "prompt_layers").update(run_on_token_gen=True), "two parts"),
            (lambda c: stage(c, "token_layers").update(filename="token_head.onnx"), "stage 'token_layers' has no input")):
        changed = copy.deepcopy(config)
        change(changed)
        (folder / "genai_config.json").write_text(json.dumps(changed))
        try:
            yield f"expected '{message}': {probe.generate({'folder': str(folder)}, PROMPTS[:1], max_new_tokens=1)}"
        except Refused as refusal:
            if message not in str(refusal):
                yield f"expected '{message}': {refusal}"


def main():
    passed, failed = 0, 0

    def count(name, problems):
        nonlocal passed, failed
        problems = list(problems)
        for problem in problems:
            print(f"wrong: {name}: {problem[:600]}", file=sys.stderr)
        passed, failed = passed + (not problems), failed + bool(problems)

    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for name, changes, check in (("same", [], same), ("single", ["single"], same),
                                     ("distinct", ["negated"], distinct), ("fixed", ["single", "fixed"], one_sequence_per_run),
                                     ("not packed", ["mixed"], one_sequence_per_run)):
            folder = pathlib.Path(work) / name.replace(" ", "_")
            config = make_stages.make(folder, changes)
            for target in ("ref", "cpu"):
                count(f"{name} on {target}", check(probe, folder, target))
        count("refused", refused(probe, folder, config))
        folder = pathlib.Path(work) / "wide"
        make_stages.make(folder, ["wide"])
        try:
            count("wide", [f"runs: {probe.generate({'folder': str(folder)}, PROMPTS[:1], max_new_tokens=1)}"])
        except Refused as refusal:
            wanted = "the state 'past_key_values.0.key' is append of f32[4, 16] in the prefill program"
            count("wide", [] if wanted in str(refusal) else [str(refusal)])
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
