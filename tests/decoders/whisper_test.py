# SPDX-License-Identifier: MIT
"""An encoder-decoder (the zoo's whisper) on features, against Transformers and ONNX Runtime; its Hugging Face folder,
also in shards with a configuration of Transformers 4."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import zoo
from probe import PROGRAM, Probe, Refused
from write_shards import write_shards

LATHE = PROGRAM.parent.parent / "bin" / "lathe"


def features(seed=0):
    i, t = np.meshgrid(np.arange(80, dtype=np.int64), np.arange(3000, dtype=np.int64), indexing="ij")
    return (((7919 * i + (104729 + seed) * t) % 1009) / 504.5 - 1).astype(np.float32)[None]


def bits(probe, model, prompts, work):
    """Sequences over different features have the same bits in any chunks and batches."""
    each = []
    for seed in range(len(prompts)):
        mel = features(seed)
        mel.tofile(work / f"mel{seed}")
        each.append({"audio_features": {"dims": list(mel.shape), "file": str(work / f"mel{seed}")}})
    model = {key: value for key, value in model.items() if key != "inputs"}
    alone = np.concatenate([probe.logits({**model, "inputs": own}, [tokens]) for own, tokens in zip(each, prompts)])
    for threads in (3,) if zoo.few() else (1, 3):
        for parts in ((4, 1, 7),) if zoo.few() else ((), (1,), (4, 1, 7)):
            for together in (True, False):
                got = probe.logits({**model, "each": each, "threads": threads}, prompts, parts, together)
                if got.tobytes() != alone.tobytes():
                    yield f"{threads} threads, parts of {parts}: bits differ, by {np.abs(got - alone).max()}"
    back = probe.logits({**model, "each": each}, prompts[:1], back=3)
    if back.tobytes() != alone[3:len(prompts[0])].tobytes():
        yield "tokens that ran again differ"


def check(probe, folder, form, target, work):
    expected = json.loads((folder / "expected.json").read_text())
    reference, arrays = ("transformers", "hf") if form in ("fp32", "hf") else ("onnxruntime_int4", "onnxruntime_int4")
    tokens, margins = zoo.run_of(expected[reference], 0)
    recorded = np.load(folder / f"logits_{arrays}.npz")
    mel = features()
    mel.tofile(work / "mel")
    model = {"folder": str(folder / form), "target": target,
             "inputs": {"audio_features": {"dims": list(mel.shape), "file": str(work / "mel")}}}
    prompt = expected["prompt"]
    notes = probe.ask({**model, "notes": True})
    kinds = sorted({(state["kind"], state["paged"]) for state in notes["states"]})
    if not notes["packed"] or kinds != [("append", True), ("cross", False)]:
        yield f"{notes['not_packed_reason'] or 'packed'}, with states {kinds}"
    yield from bits(probe, model, [prompt + tokens, prompt[:1], prompt + tokens[2:9]], work)
    expected = np.concatenate([recorded["prompt_logits"], recorded["step_logits"][1:]])
    for parts in ((len(prompt), 1), ()):
        got = probe.logits(model, [prompt + tokens[:-1]], parts)
        distance = np.abs(got - expected).max()
        if not (got.shape == expected.shape and distance <= 1e-4):
            yield f"logits in parts of {parts} are {distance} away"
    got = probe.generate(model, [prompt, prompt], max_new_tokens=len(tokens))
    for sequence in got:
        if zoo.first_difference(sequence[0]["ids"], tokens, margins, len(tokens), 2e-4) is not None:
            yield f"greedy: {sequence[0]['ids']}, {reference} has {tokens}"
    # The first of several beams is the most likely; all read the same features.
    beams = probe.generate(model, [prompt], max_new_tokens=6, num_beams=3, num_return_sequences=3)[0]
    if len(beams) != 3 or beams[0]["score"] < beams[1]["score"]:
        yield f"beams: {beams}"
    for change, message in (({"inputs": {}}, "set the encoder's inputs before its tokens"),
                            ({"inputs": {"mel": model["inputs"]["audio_features"]}}, "audio_features"),
                            ({"inputs": {"audio_features": {"dims": [1, 40, 6000], "file": str(work / "mel")}}}, "80")):
        try:
            yield f"expected '{message}': {probe.generate({**model, **change}, [prompt], max_new_tokens=1)}"
        except Refused as refused:
            if message not in str(refused):
                yield f"expected '{message}': {refused}"


def rewrite(folder, to, spelling):
    """The decoder with cross-attention in standard operators."""
    shutil.copytree(folder, to)
    model = onnx.load(to / "decoder.onnx", load_external_data=False)
    nodes, count = [], 0
    tensors = {"shape_in": [0, 0, 4, 16], "shape_out": [0, 0, 64]}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v), k) for k, v in tensors.items())
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.25, np.float32), "cross_scale"))
    for node in model.graph.node:
        if node.op_type != "MultiHeadAttention" or not node.input[1].startswith("past_key_cross"):
            nodes.append(node)
            continue
        count += 1
        name = lambda part: f"cross_{count}_{part}"
        make = lambda op, inputs, output, **options: nodes.append(helper.make_node(op, inputs, [output], output, **options))
        make("Reshape", [node.input[0], "shape_in"], name("split"))
        make("Transpose", [name("split")], name("query"), perm=[0, 2, 1, 3])
        if spelling == "attention":
            make("Attention", [name("query"), *node.input[1:3]], name("heads"), scale=0.25)
        else:
            make("Transpose", [node.input[1]], name("turned"), perm=[0, 1, 3, 2])
            make("MatMul", [name("query"), name("turned")], name("product"))
            make("Mul", [name("product"), "cross_scale"], name("scores"))
            if spelling == "masked":  # masks by index, which packed sequences do not have
                make("Trilu", [name("scores")], name("triangle"), upper=0)
            make("Softmax", [name("triangle" if spelling == "masked" else "scores")], name("weights"), axis=-1)
            make("MatMul", [name("weights"), node.input[2]], name("heads"))
        make("Transpose", [name("heads")], name("joint"), perm=[0, 2, 1, 3])
        make("Reshape", [name("joint"), "shape_out"], node.output[0])
    assert count == 2, f"{count} cross attentions, expected 2"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for opset in model.opset_import:
        opset.version = max(opset.version, 23) if opset.domain == "" else opset.version
    onnx.save(model, to / "decoder.onnx")
    return to


def spellings(probe, folder, target, work):
    """Every form of cross-attention is packed; other forms run one sequence per run."""
    mel = features()
    mel.tofile(work / "mel")
    model = {"target": target, "inputs": {"audio_features": {"dims": list(mel.shape), "file": str(work / "mel")}}}
    tokens = [[3, 40, 7, 261, 378], [9, 8, 7]]
    expected = probe.logits({**model, "folder": str(folder)}, tokens)
    for spelling in ("attention", "products", "masked"):
        own = {**model, "folder": str(rewrite(folder, work / f"{spelling}_{target}", spelling))}
        notes = probe.ask({**own, "notes": True})
        if notes["packed"] == (spelling == "masked") or (spelling == "masked" and "trilu" not in notes["not_packed_reason"]):
            yield f"{spelling}: {notes['not_packed_reason'] or 'packed'}"
        got = probe.logits(own, tokens)
        if spelling != "masked" and not np.abs(got - expected).max() <= 1e-5:
            yield f"{spelling}: logits are {np.abs(got - expected).max()} away"
        if got.tobytes() != probe.logits(own, tokens, together=False).tobytes():
            yield f"{spelling}: other sequences change bits"


def shards(probe, folder, target, work):
    """Shards have the bits of the whole folder."""
    write_shards(folder, work / f"shards_{target}")
    mel = features()
    mel.tofile(work / "mel")
    model = {"target": target, "inputs": {"audio_features": {"dims": list(mel.shape), "file": str(work / "mel")}}}
    whole = probe.logits({**model, "folder": str(folder)}, [[3, 40, 7]])
    if probe.logits({**model, "folder": str(work / f"shards_{target}")}, [[3, 40, 7]]).tobytes() != whole.tobytes():
        yield "logits of shards differ"


def verify(folder):
    """Kernels of encoder and decoder agree with the reference."""
    run = subprocess.run([LATHE, "verify", folder], capture_output=True, text=True)
    if run.returncode != 0 or "each kernel, encoder, prompt of 16 tokens and 4 steps" not in run.stdout:
        yield f"verify exits with {run.returncode}: {run.stderr}{run.stdout}"


def main():
    archive = zoo.ZOO / "whisper.tar.zst"
    if not archive.exists():
        print(f"skipped 1: missing {archive}\n0 passed, 0 failed, 1 skipped")
        return 0
    passed, failed = 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        subprocess.run(["tar", "--zstd", "-xf", archive, "-C", work], check=True)
        for form in ("hf",) if zoo.few() else ("fp32", "int4", "hf"):
            for target in ("ref", "cpu"):
                problems = list(check(probe, work / "whisper", form, target, work))
                if form == "fp32":
                    problems += spellings(probe, work / "whisper" / form, target, work)
                if form == "hf":
                    problems += shards(probe, work / "whisper" / form, target, work)
                if target == "cpu":
                    problems += verify(work / "whisper" / form)
                for problem in problems:
                    print(f"wrong: {form} on {target}: {problem[:600]}", file=sys.stderr)
                passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
