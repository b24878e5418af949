# SPDX-License-Identifier: MIT
"""A decoder of every type, exported for ONNX Runtime GenAI in every form, against recorded answers: logits
of prompts and of an unequal batch, greedy tokens, beams, a repetition penalty; on each target.

TEST_TARGETS: the targets, separated by commas. TEST_JOBS: how many models run at once, each in a process."""

import concurrent.futures
import contextlib
import os
import pathlib
import queue
import sys
import tempfile
import time

import numpy as np

import zoo
from probe import Probe, Refused

COUNTING = {"folder": "examples/counting"}
TARGETS = os.environ.get("TEST_TARGETS", "ref,cpu").split(",")
JOBS = int(os.environ.get("TEST_JOBS", "1"))
PAGE = pathlib.Path(__file__).parent / "disagreements.md"
# Half precision: allowed distance of logits, and the margin below which tokens may differ.
HALF = {"fp16_cuda": (0.03, 0.06), "bf16_cuda": (0.3, 0.6)}
def check_counting(probe):
    """The example counts to 15, for several prompts at once and by beams."""
    got = probe.generate(COUNTING, [[3, 4], [13], [1, 1, 1, 9]], max_new_tokens=5)
    if [s[0]["ids"] for s in got] != [[5, 6, 7, 8, 9], [14, 15], [10, 11, 12, 13, 14]]:
        yield f"counting: {got}"
    got = probe.generate(COUNTING, [[3, 4]], max_new_tokens=3, num_beams=2)
    if got[0][0]["ids"] != [5, 6, 7]:
        yield f"counting by beams: {got}"
    for prompt, model, options, message in (
            ([99], {}, {}, "token 99 lies outside the vocabulary of 16"),
            ([1] * 256, {}, {}, "256 tokens leave no room in a context of 256"),
            ([1], {}, {"top_p": 7}, "search option 'top_p' is 7"),
            ([1], {"overlay": '{"model": {"type": "lama", "vision": {}}}'}, {}, "did you mean 'llama'?")):
        try:
            yield f"expected '{message}': {probe.generate({**COUNTING, **model}, [prompt], **options)}"
        except Refused as refused:
            if message not in str(refused):
                yield f"expected '{message}': {refused}"


def check_logits(probe, model, t, form):
    reference, arrays = t.reference(form)
    allowed = HALF[form][0] if form in HALF else t.tolerance(form)
    recorded = t.arrays("onnxruntime_int4_qdq" if form == "int4_qdq" else arrays)
    if form == "fp32" and t.name != "olmo":
        recorded |= {name: recorded["p33"][:len(t.prompts[name])] for name in ("p1", "p7") if name not in recorded}
    for name in sorted(set(recorded) & {"p1", "p7", "p33", "p80", "p60", "batch_last"}):
        expected = recorded[name]
        if name == "batch_last":
            ends = np.cumsum([len(prompt) for prompt in t.batch]) - 1
            got = probe.logits(model, t.batch)[ends]
        else:
            got = probe.logits(model, [t.prompts[name]])
            if len(got) != len(t.prompts[name]):
                yield f"logits of {len(got)} tokens for {name}"
            got = got[-len(expected):]
        distance = np.abs(got - expected).max()
        if not distance <= allowed:
            yield f"logits of {name} are {distance} away from {arrays}, allowed {allowed}"
    if "greedy_p33" in recorded:
        got = probe.generate(model, [t.prompts["p33"]], max_new_tokens=32)[0][0]["ids"]
        if got != zoo.until_end(recorded["greedy_p33"].tolist()):
            yield f"greedy p33: {got}, ONNX Runtime has {recorded['greedy_p33']}"
    if not recorded:
        yield f"missing recorded logits {arrays}"


def check_tokens(probe, model, t, form):
    reference = t.reference(form)[0]
    least = 1e-3 if form.startswith("fp32") else HALF[form][1] if form in HALF else 2 * t.tolerance(form)
    runs = list(t.greedy(reference))
    if len(runs) < 4:
        yield f"only {len(runs)} recorded runs of {reference}"
    # One batch of all prompts: 1, 7, 33, 80, 5, 19 and 40 tokens.
    got = probe.generate(model, [prompt for _, prompt, *_ in runs], max_new_tokens=32)
    for (name, _, tokens, margins, count), sequence in zip(runs, got, strict=True):
        at = zoo.first_difference(sequence[0]["ids"], tokens, margins, count, least)
        if at is not None:
            yield f"greedy {name} from {at}: {sequence[0]['ids']}, {reference} has {tokens}"
    for name, recorded in t.expected[reference]["greedy_repetition_penalty_1.3"].items():
        tokens, margins = zoo.run_of(recorded, 0)
        got = probe.generate(model, [t.prompts[name]], max_new_tokens=32, repetition_penalty=1.3)[0][0]["ids"]
        if zoo.first_difference(got, tokens, margins, 32, least) is not None:
            yield f"repetition penalty {name}: {got}, {reference} has {tokens}"


def check_beams(probe, model, t, form):
    reference = t.reference(form)[0]
    for name, beams in t.expected[reference]["beams"].items():
        if "tokens" not in beams:  # GenAI fails
            continue
        got = probe.generate(model, [t.prompts[name]], max_new_tokens=16, num_beams=4, num_return_sequences=4,
                             early_stopping=True, length_penalty_counts_prompt=reference != "transformers")[0]
        if [zoo.before_end(s["ids"]) for s in got] != [zoo.before_end(tokens) for tokens in beams["tokens"]]:
            yield f"beams {name}: {got}, {reference} has {beams['tokens']}"
        for sequence, score in zip(got, beams.get("scores", ())):
            if abs(sequence["score"] - score) > HALF.get(form, (1e-4,))[0]:
                yield f"beams {name}: a score of {sequence['score']}, {reference} has {score}"


def check_switch(probe, model, prompt, allowed):
    """Across the LongRoPE switch and back, each token has the logits of a run of its own length, to the bit if `allowed` is -1."""
    before = probe.logits(model, [prompt[:zoo.SWITCH]])
    after = probe.logits(model, [prompt])
    for parts, back in (((40, 10, 30), 0), ((10, 30), 40), ((16, 1), 34)):
        expected = [after if end > zoo.SWITCH else before for end in np.cumsum(parts) + back]
        got = probe.logits(model, [prompt], parts, back=back)
        begin = back
        for part, right in zip(parts, expected):
            part_tokens = slice(begin - back, begin + part - back)
            own, right = got[part_tokens], right[begin:begin + part]
            if own.tobytes() != right.tobytes() and not np.abs(own - right).max() <= allowed:
                yield f"tokens from {begin} on differ in parts of {parts}, rewound to {back}"
            begin += part


def check_disagreements(all_types):
    """The page lists exactly the recorded differences."""
    listed = {tuple(cell.strip() for cell in line.split("|")[1:4])
              for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    found = set()
    for t in all_types:
        for name in t.expected:
            if name.startswith("genai_fp32") and (text := zoo.disagreements(t, name[6:])):
                found.add((f"`{t.name}`", f"`{name[6:]}`", text))
    for row in sorted(listed ^ found):
        yield f"{'only on the page' if row in listed else 'not on the page'}: {' | '.join(row)}"


def check_form(probe, t, form, target):
    model = {"folder": str(t.folder / form), "target": target}
    try:
        yield from check_logits(probe, model, t, form)
        if form == "bf16_cuda":
            return
        # GenAI ran it with 8-bit activations.
        if form != "int4_qdq":
            yield from check_tokens(probe, model, t, form)
            yield from check_beams(probe, model, t, form)
        if t.name in zoo.LONGROPE:
            # A GPU has another kernel for a few quantised tokens than for many.
            allowed = t.tolerance(form) if target.startswith("gpu") and form.startswith("int4") else -1
            yield from check_switch(probe, model, t.prompts["p80"], allowed)
    except Refused as refused:
        yield str(refused)


def main():
    passed, failed = 0, 0

    def count(what, problems):
        nonlocal passed, failed
        for problem in problems:
            print(f"wrong: {what}: {problem[:600]}", file=sys.stderr)
        passed, failed = passed + (not problems), failed + bool(problems)

    with contextlib.ExitStack() as stack:
        idle = queue.Queue()
        for _ in range(JOBS):
            idle.put(stack.enter_context(Probe()))
        work = stack.enter_context(tempfile.TemporaryDirectory())

        def run(t, form, target):
            probe = idle.get()
            start = time.monotonic()
            try:
                problems = list(check_form(probe, t, form, target))
            finally:
                idle.put(probe)
            return f"{t.name} {form} on {target}", problems, time.monotonic() - start

        probe = idle.get()
        count("counting", list(check_counting(probe)))
        idle.put(probe)
        if not zoo.ZOO.exists():
            print(f"skipped 1: missing {zoo.ZOO}\n{passed} passed, {failed} failed, 1 skipped")
            return 1 if failed else 0
        all_types = list(zoo.types(pathlib.Path(work)))
        if len(all_types) < 24:
            count("the zoo", [f"only {len(all_types)} types were found"])
        count("the page", list(check_disagreements(all_types)))
        chosen = [t for t in all_types if not zoo.few() or t.name in zoo.FEW]
        runs = [(t, form, target) for t in chosen for form in t.forms() for target in TARGETS]
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(JOBS))
        ended = concurrent.futures.as_completed([pool.submit(run, *each) for each in runs])
        for number, done in enumerate(ended, 1):
            what, problems, seconds = done.result()
            count(what, problems)
            if JOBS > 1:
                print(f"{number} of {len(runs)}: {what}, {seconds:.1f} s", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
