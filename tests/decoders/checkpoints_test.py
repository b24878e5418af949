# SPDX-License-Identifier: MIT
"""Hugging Face folders of every architecture in the zoo against recorded answers of Transformers, also in shards with
a configuration of Transformers 4, and written as GGUF files; GGUF files against Transformers with their dequantised
weights."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import zoo
from probe import Probe, Refused
from write_gguf import write_gguf
from write_shards import tensors_of, write_shards
from zoo_test import check_beams, check_logits, check_tokens

GGUF = {"llama_k256": 3e-4}  # absolute, on logits of spread 3; else 1e-4
TARGETS = ("ref", "cpu")
SHORT = ("mistral", "phimoe", "smollm3")  # compared within the window
# Values that GGUF files do not state: Gemma 2's scale of attention, and which layers of SmolLM3 have no positions.
UNSTATED = {"gemma2": {"query_pre_attn_scalar": 16}, "smollm3_nope": {"no_rope_layers": [1, 1, 1]}}
# Second names of architectures in GGUF files.
NAMES = {"mistral": "mistral3", "granitemoehybrid": "granitehybrid"}


def hf_types(work):
    """All types with a Hugging Face folder of a decoder."""
    list(zoo.types(work))
    for folder in sorted(work.iterdir()):
        if (folder / "hf" / "config.json").exists() and folder.name != "whisper":
            t = zoo.Type(folder)
            if "transformers" in t.expected:
                yield t


class Reference(zoo.Type):
    """A type whose forms all have the answers of Transformers."""

    def reference(self, form):
        return "transformers", "hf"


def check_hf(probe, t, folder, target):
    t.__class__ = Reference
    model = {"folder": str(folder), "target": target}
    try:
        notes = probe.ask({**model, "notes": True})
        if not notes["packed"]:
            yield f"not packed: {notes['not_packed_reason']}"
        yield from check_logits(probe, model, t, "fp32")
        yield from check_tokens(probe, model, t, "fp32")
        yield from check_beams(probe, model, t, "fp32")
    except Refused as refused:
        yield str(refused)


def check_shards(probe, t, work):
    shards = work / f"{t.name}-shards"
    write_shards(t.folder / "hf", shards)
    whole = probe.logits({"folder": str(t.folder / "hf"), "target": "cpu"}, [t.prompts["p33"]])
    parts = probe.logits({"folder": str(shards), "target": "cpu"}, [t.prompts["p33"]])
    if whole.tobytes() != parts.tobytes():
        yield f"logits of shards differ by {np.abs(whole - parts).max()}"


def check_gguf(probe, path, expected, arrays, prompt, target):
    kind = path.stem.rpartition("-")
    model = {"folder": str(path), "target": target, "compute": "f32"}
    try:
        allowed = GGUF.get(kind[0], 1e-4)
        got = probe.logits(model, [prompt])[-4:]
        distance = np.abs(got - arrays[f"{kind[2]}_dequantized"]).max()
        if not distance <= allowed:
            yield f"logits are {distance} away, allowed {allowed}"
        run = expected["transformers_dequantized"]
        got = probe.generate(model, [prompt], max_new_tokens=16)[0][0]["ids"]
        if zoo.first_difference(got, run["tokens"], run["margins"], 16, 1e-3) is not None:
            yield f"greedy: {got}, Transformers has {run['tokens']}"
    except Refused as refused:
        yield str(refused)


def float_tensors(folder):
    """The tensors of bfloat16 as float32."""
    for name, (info, data) in tensors_of(folder / "model.safetensors").items():
        wide = np.frombuffer(data, "<u2").astype("<u4") << 16 if info["dtype"] == "BF16" else np.frombuffer(data, "<u4")
        yield name, wide.view("<f4").reshape(info["shape"])


def check_restated(probe, t, work):
    """The GGUF file beside the folder, whose configuration has the values that files do not state."""
    changed = work / f"{t.name}-restated"
    shutil.copytree(t.folder / "hf", changed)
    config = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps({**config, **UNSTATED[t.name]}))
    path = work / f"{t.name}.gguf"
    write_gguf(changed, dict(float_tensors(changed)), path)
    for target in TARGETS:
        folder, file = ({"folder": str(place), "target": target, "compute": "f32"} for place in (changed, path))
        expected, got = (probe.logits(model, [t.prompts["p80"]]) for model in (folder, file))
        distance = np.abs(got - expected).max()
        if not distance <= 1e-4:
            yield f"on {target}, logits are {distance} from the folder's, allowed 1e-4"


def check_written(probe, t, work, arch=None):
    """The folder as a GGUF file of float32 weights. Files do not have the windows of llama and smollm3, and Phi's
    experts have one factor of RoPE for all lengths."""
    t.__class__ = Reference
    path = work / f"{t.name}.gguf"
    write_gguf(t.folder / "hf", dict(float_tensors(t.folder / "hf")), path, arch)
    try:
        for target in TARGETS:
            model = {"folder": str(path), "target": target, "compute": "f32"}
            for name in ("p33",) if t.name in SHORT else ("p33", "p80"):
                expected = t.arrays("hf")[name]
                rows = slice(0, 32 if t.name in SHORT else None)
                got = probe.logits(model, [t.prompts[name]])[-len(expected):]
                distance = np.abs(got - expected)[rows].max()
                if not distance <= t.tolerance("fp32"):
                    yield f"on {target}, logits of {name} are {distance} away, allowed {t.tolerance('fp32')}"
            if t.name not in SHORT:
                yield from check_tokens(probe, model, t, "fp32")
    except Refused as refused:
        yield str(refused)
    finally:
        path.unlink()


def check_commands(path):
    """The commands that take a GGUF file as a model folder."""
    for command in (["explain", path], ["verify", path], ["perf", path, "--prompt-tokens", "8", "--new-tokens", "2", "--json"]):
        run = subprocess.run([os.environ["TEST_PROGRAM"], *map(str, command)], capture_output=True, text=True)
        if run.returncode != 0 or not run.stdout:
            yield f"lathe {command[0]} exits with {run.returncode}: {run.stderr}"


def main():
    only = sys.argv[1:]
    passed, failed = 0, 0

    def count(what, problems):
        nonlocal passed, failed
        for problem in problems:
            print(f"wrong: {what}: {problem[:600]}", file=sys.stderr)
        passed, failed = passed + (not problems), failed + bool(problems)

    if not zoo.ZOO.exists():
        print(f"skipped: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        found = list(hf_types(work))
        if len(found) < 32:
            count("the zoo", [f"only {len(found)} Hugging Face folders were found"])
        for t in found:
            if (only and t.name not in only) or (zoo.few() and t.name not in zoo.FEW):
                continue
            for target in TARGETS:
                count(f"{t.name} hf on {target}", list(check_hf(probe, t, t.folder / "hf", target)))
            try:
                count(f"{t.name} in shards", list(check_shards(probe, t, work)))
            except Refused as refused:
                count(f"{t.name} in shards", [str(refused)])
            if t.name in UNSTATED:
                count(f"{t.name} as GGUF", list(check_restated(probe, t, work)))
            else:
                count(f"{t.name} as GGUF", list(check_written(probe, t, work)))
            if t.name in NAMES:
                count(f"{t.name} as {NAMES[t.name]}", list(check_written(probe, t, work, NAMES[t.name])))
        recorded = json.loads((work / "gguf" / "expected.json").read_text())
        for name, expected in recorded["files"].items():
            path = work / "gguf" / name
            kind = path.stem.rpartition("-")[0]
            if (only and "gguf" not in only) or (zoo.few() and not name.startswith("llama")):
                continue
            arrays = dict(np.load(work / "gguf" / f"{kind}-logits.npz"))
            if name.startswith("llama_"):
                count(f"commands on {name}", list(check_commands(path)))
            for target in TARGETS:
                count(f"{name} on {target}",
                      list(check_gguf(probe, path, expected, arrays, recorded["gguf_prompt"], target)))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
