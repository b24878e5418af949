# SPDX-License-Identifier: MIT
"""4-bit weights with 8-bit activations: each token's logits against ONNX Runtime, and the distance of both to float
activations. Feeds recorded tokens, so that a rounding difference does not change later inputs."""

import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import zoo
from compare import mean_kl, onnxruntime_logits
from probe import Probe, Refused

# Models in which rounding switches experts.
PRINTED = ("qwen3_5_moe",)


def session(path, work, level):
    """Logits of a graph with this accuracy_level in every matrix multiplication, and windows that hold all positions."""
    model = onnx.load(path)
    for node in model.graph.node:
        for attribute in list(node.attribute):
            if attribute.name == "accuracy_level":
                attribute.i = level
            if attribute.name == "sliding_window_cache":
                node.attribute.remove(attribute)
    target = work / f"level{level}.onnx"
    onnx.save(model, target)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(target, options, providers=["CPUExecutionProvider"])


def fed_back(t, form):
    for name, prompt, tokens, *_ in t.greedy(f"genai_{form}"):
        if not name.startswith("batch"):
            yield name, prompt + tokens[:-1]


def check_recorded(probe, t, target, work):
    """int4_acc4: weights and arithmetic equal ONNX Runtime's except for ties."""
    config = json.loads((t.folder / "int4" / "genai_config.json").read_text())
    head = config["model"]["decoder"]["head_size"]
    path = t.folder / "int4_acc4" / "model.onnx"
    exact, rounded = session(path, work, 1), session(path, work, 4)
    ours, theirs, close = [], [], 0
    for name, tokens in fed_back(t, "int4_acc4"):
        got = probe.logits({"folder": str(t.folder / "int4_acc4"), "target": target}, [tokens])
        floats = probe.logits({"folder": str(t.folder / "int4"), "target": target}, [tokens])
        peer = onnxruntime_logits(rounded, tokens, head)
        distance = np.abs(got - peer).max()
        print(f"int4_acc4 on {target}: {name}: {distance:.1e} from ONNX Runtime over {len(tokens)} tokens")
        close += distance <= 1e-3
        if not distance <= 1:
            yield f"{name}: logits are {distance} away from ONNX Runtime's"
        ours.append(mean_kl(floats, got))
        theirs.append(mean_kl(onnxruntime_logits(exact, tokens, head), peer))
    print(f"int4_acc4 on {target}: mean KL {np.mean(ours):.5f}, of ONNX Runtime {np.mean(theirs):.5f}")
    if close < 2 or len(ours) != 4:
        yield f"{close} of {len(ours)} prompts are within 1e-3 of ONNX Runtime on every token"
    if not np.mean(ours) <= 1.5 * np.mean(theirs):
        yield f"mean KL to f32 is {np.mean(ours)}, of ONNX Runtime {np.mean(theirs)}"


def check_compute(probe, t, target, work):
    """Matrix multiplications in int8 although the file requires floats, in both engines."""
    config = json.loads((t.folder / "int4" / "genai_config.json").read_text())
    head = config["model"]["decoder"]["head_size"]
    exact, rounded = (session(t.folder / "int4" / "model.onnx", work, level) for level in (1, 4))
    model = {"folder": str(t.folder / "int4"), "target": target}
    ours, theirs, bf16 = [], [], []
    for _, tokens in fed_back(t, "int4"):
        floats = probe.logits({**model, "compute": "f32"}, [tokens])
        ours.append(mean_kl(floats, probe.logits({**model, "compute": "int8"}, [tokens])))
        bf16.append(mean_kl(floats, probe.logits({**model, "compute": "bf16"}, [tokens])))
        theirs.append(mean_kl(*(onnxruntime_logits(engine, tokens, head) for engine in (exact, rounded))))
    print(f"{t.name} on {target}: mean KL of int8 {np.mean(ours):.5f}, of ONNX Runtime {np.mean(theirs):.5f}, "
          f"of bf16 {np.mean(bf16):.5f}")
    if not 0 < np.mean(ours) or t.name not in PRINTED and not np.mean(ours) <= 1.5 * np.mean(theirs):
        yield f"mean KL of int8 to f32 is {np.mean(ours)}, of ONNX Runtime {np.mean(theirs)}"


def main():
    passed, failed = 0, 0
    if not zoo.ZOO.exists():
        print(f"skipped 1: missing {zoo.ZOO}\n0 passed, 0 failed, 1 skipped")
        return 0

    def count(what, problems):
        nonlocal passed, failed
        try:
            problems = list(problems)
        except Refused as refused:
            problems = [str(refused)]
        for problem in problems:
            print(f"wrong: {what}: {problem[:600]}", file=sys.stderr)
        passed, failed = passed + (not problems), failed + bool(problems)

    with Probe() as probe, tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as models:
        for t in zoo.types(pathlib.Path(work)):
            if zoo.few() and t.name not in zoo.FEW:
                continue
            for target in ("ref", "cpu"):
                if (t.folder / "int4_acc4").exists():
                    count(f"{t.name} int4_acc4 on {target}", check_recorded(probe, t, target, pathlib.Path(models)))
            if (t.folder / "int4").exists():
                for target in ("ref", "cpu") if zoo.FULL else ("cpu",):
                    count(f"{t.name} on {target}", check_compute(probe, t, target, pathlib.Path(models)))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
