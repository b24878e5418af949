# SPDX-License-Identifier: MIT
"""A decoder of every type, exported for ONNX Runtime GenAI, against Transformers' recorded answers: logits
of a prompt, greedy tokens of prompts that share steps, and beams."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

LATHE = os.environ["TEST_PROGRAM"]
ZOO = pathlib.Path("../shared/models/zoo")
END = 2
# Absolute, on logits of spread 3; where the graph differs from the model or magnifies rounding, more.
TOLERANCE = {"qwen3_5": 1e-3, "qwen3_5_moe": 1e-3, "phi": 1e-3}
# What cannot be run row by row yet, and says so.
REFUSED = {"phi3_longrope": "attention_mask", "phi4_mini": "attention_mask"}
FEW = ("llama", "lfm2", "gemma2")  # under sanitizers


def lathe(folder, prompts, *options):
    command = [LATHE, "generate", folder, "--json", *options]
    for prompt in prompts:
        command += ["--ids", ",".join(map(str, prompt))]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        return run.stderr.strip()
    return json.loads(run.stdout)["sequences"]


def until_end(tokens):
    return tokens[:tokens.index(END) + 1] if END in tokens else tokens


def check_type(name, folder, expected, work):
    """Yields what is wrong."""
    reference = expected["genai_fp32"] if name == "olmo" else expected["transformers"]
    prompts = expected["prompts"]
    if name in REFUSED:
        said = lathe(folder / "fp32", [prompts["p1"]], "--max-new-tokens", "1")
        if not isinstance(said, str) or REFUSED[name] not in said:
            yield f"expected a refusal that names {REFUSED[name]}: {said}"
        return
    # Prompts of 1, 7, 33, 80, 5, 19 and 40 tokens in one batch.
    batch = expected["batch"]
    names = list(reference["greedy"])
    got = lathe(folder / "fp32", [prompts[p] for p in names] + batch, "--max-new-tokens", "32",
                "--logits", work / "logits.npy")
    if isinstance(got, str):
        yield got
        return
    wanted = [reference["greedy"][p]["tokens"][0] for p in names]
    rows = reference["batch_greedy"]
    wanted += rows["tokens"] if isinstance(rows, dict) else rows
    for what, sequence, tokens in zip(names + ["batch"] * len(batch), got, wanted, strict=True):
        if sequence["ids"] != until_end(tokens[:len(sequence["ids"])]) or len(sequence["ids"]) != len(until_end(tokens)):
            yield f"greedy {what}: {sequence['ids']}, expected {tokens}"
    for prompt, beams in reference["beams"].items():
        tokens = beams["tokens"] if isinstance(beams, dict) else beams
        got = lathe(folder / "fp32", [prompts[prompt]], "--max-new-tokens", "16", "--num-beams", "4",
                    "--num-return-sequences", "4", "--length-penalty-counts-prompt",
                    "true" if name == "olmo" else "false")
        if isinstance(got, str) or [s["ids"] for s in got] != [until_end(t) for t in tokens]:
            yield f"beams {prompt}: {got}, expected {tokens}"
    if name == "olmo":
        return
    lathe(folder / "fp32", [prompts["p33"]], "--max-new-tokens", "1", "--logits", work / "logits.npy")
    logits = np.load(work / "logits.npy")
    hf = np.load(folder / "logits_hf.npz")["p33"]
    distance = np.abs(logits - hf.reshape(logits.shape)).max()
    if not distance <= TOLERANCE.get(name, 1e-4):
        yield f"logits of p33 are off by {distance}"


def check_counting():
    """The example counts to 15, several prompts at once and by beams."""
    folder = "examples/counting"
    got = lathe(folder, [[3, 4], [13], [1, 1, 1, 9]], "--max-new-tokens", "5")
    wanted = [([5, 6, 7, 8, 9], "length"), ([14, 15], "stop"), ([10, 11, 12, 13, 14], "length")]
    if isinstance(got, str) or [(s["ids"], s["finish_reason"]) for s in got] != wanted:
        yield f"counting: {got}"
    got = lathe(folder, [[3, 4]], "--max-new-tokens", "3", "--num-beams", "2")
    if isinstance(got, str) or got[0]["ids"] != [5, 6, 7]:
        yield f"counting by beams: {got}"
    for prompt, options, message in (([99], (), "token 99 lies outside the vocabulary of 16"),
                                     ([1] * 64, (), "64 tokens leave no room in a context of 64"),
                                     ([1], ("--top-p", "7"), "search option 'top_p' is 7"),
                                     ([1], ("--config", '{"model": {"type": "lama"}}'), "did you mean 'llama'?")):
        got = lathe(folder, [prompt], *options)
        if not isinstance(got, str) or message not in got:
            yield f"expected '{message}': {got}"


def main():
    problems = list(check_counting())
    for problem in problems:
        print(f"wrong: {problem[:600]}", file=sys.stderr)
    if not ZOO.exists():
        print(f"skipped 1: there is no {ZOO}\n{int(not problems)} passed, {int(bool(problems))} failed, 1 skipped")
        return 1 if problems else 0
    names = sorted({path.name.split(".")[0] for path in ZOO.iterdir() if path.is_dir() or path.suffix == ".zst"})
    few = os.environ.get("TEST_PRESET") != "release"
    passed, failed = int(not problems), int(bool(problems))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for name in names:
            if few and name not in FEW:
                continue
            folder = ZOO / name
            if not folder.is_dir():
                subprocess.run(["tar", "--zstd", "-xf", f"{folder}.tar.zst", "-C", work], check=True)
                folder = work / name
            if not (folder / "fp32" / "model.onnx").exists() or not (folder / "expected.json").exists():
                continue
            expected = json.loads((folder / "expected.json").read_text())
            if "greedy" not in expected.get("transformers", {}) or name == "gemma4_moe":
                continue
            problems = list(check_type(name, folder, expected, work))
            for problem in problems:
                print(f"wrong: {name}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    if passed + failed < (len(FEW) if few else 20) + 1:
        print(f"wrong: only {passed + failed} types were found", file=sys.stderr)
        failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
