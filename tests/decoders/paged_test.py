# SPDX-License-Identifier: MIT
"""Decoders with paged KV caches in their file: a real model rewritten from GQA, with the same tokens and logits, and a
synthetic one whose tokens depend on its block table."""

import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from probe import Probe, Refused

STORIES = pathlib.Path("../shared/models/llm/stories260k-onnx")
SYNTHETIC = pathlib.Path("../shared/models/genai/engine/synthetic-paged")


def rewrite(source, target, block_length, blocks, last_only):
    """Replaces GQA by paged attention; the other nodes accept any rank."""
    model = onnx.load(source)
    graph = model.graph
    value = helper.make_tensor_value_info
    caches = {}
    kept = []
    for node in graph.node:
        if node.op_type != "GroupQueryAttention":
            kept.append(node)
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        past = list(node.input[3:5])
        inputs = [*node.input[:3], *past, "cumulative_sequence_lengths", "past_sequence_lengths", "block_table",
                  *node.input[7:9]]
        for name in (*past, *node.output[1:3]):
            caches[name] = attributes["kv_num_heads"]
        kept.append(helper.make_node("PagedAttention", inputs, list(node.output), node.name, domain="com.microsoft",
                                     **attributes))
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.input}
    size = next(shape[3] for name, shape in shapes.items() if name in caches)
    inputs = [value("input_ids", TensorProto.INT64, ["tokens"])]
    inputs += [value(name, TensorProto.INT32, shape) for name, shape in
               (("cumulative_sequence_lengths", ["bounds"]), ("past_sequence_lengths", ["sequences"]),
                ("block_table", ["sequences", "widest"]))]
    cache = [blocks, block_length]
    inputs += [value(v.name, TensorProto.FLOAT, [*cache, caches[v.name], size]) for v in graph.input if v.name in caches]
    outputs = [value("logits", TensorProto.FLOAT, ["tokens", "vocabulary"])]
    outputs += [value(v.name, TensorProto.FLOAT, [*cache, caches[v.name], size]) for v in graph.output
                if v.name in caches]
    constants = []
    if last_only:
        for node in kept:
            node.output[:] = ["all_logits" if name == "logits" else name for name in node.output]
        constants = [numpy_helper.from_array(np.array(v, np.int32), n) for n, v in (("one", 1), ("first", [1]),
                                                                                    ("end", [1 << 30]))]
        kept.append(helper.make_node("Slice", ["cumulative_sequence_lengths", "first", "end"], ["ends"]))
        kept.append(helper.make_node("Sub", ["ends", "one"], ["last_tokens"]))
        kept.append(helper.make_node("Gather", ["all_logits", "last_tokens"], ["logits"], axis=0))
    # Removes nodes that only the mask needs.
    used = {name for node in kept for name in node.input} | {v.name for v in outputs}
    changed = True
    while changed:
        live = [node for node in kept if any(name in used for name in node.output)]
        changed = len(live) < len(kept)
        kept = live
        used = {name for node in kept for name in node.input} | {v.name for v in outputs}
    initializers = [t for t in graph.initializer if t.name in used] + constants
    onnx.save(helper.make_model(helper.make_graph(kept, "paged", inputs, outputs, initializers),
                                opset_imports=model.opset_import, ir_version=model.ir_version), target)


def check_stories(probe, folder):
    shutil.copy(STORIES / "tokenizer.json", folder)
    config = json.loads((STORIES / "genai_config.json").read_text())
    decoder = config["model"]["decoder"]
    decoder["filename"] = "model.onnx"
    names = {"block_table", "cumulative_sequence_lengths", "past_sequence_lengths"}
    decoder["inputs"] = {k: v for k, v in decoder["inputs"].items() if "past" in k} | {"input_ids": "input_ids"}
    decoder["inputs"] |= {name: name for name in names}
    (folder / "genai_config.json").write_text(json.dumps(config))
    rewrite(STORIES / "model_genai.onnx", folder / "model.onnx", 16, 40, last_only=False)
    rewrite(STORIES / "model_genai.onnx", folder / "last.onnx", 16, 40, last_only=True)
    overlay = json.dumps({"model": {"decoder": {"filename": "model_genai.onnx"}}})
    plain = {"folder": str(STORIES), "overlay": overlay}
    # Shared pages replace the file's blocks.
    notes = probe.ask({"folder": str(folder), "notes": True})
    if not notes["packed"] or len(notes["states"]) != 10 or not all(state["paged"] for state in notes["states"]):
        yield f"notes: {notes}"
    expected = json.loads((STORIES / "expected_greedy.json").read_text())["model_genai.onnx"]
    prompt, ids = expected["prompt_ids"], expected["greedy_ids"]
    prompts = [prompt, ids[:50], ids[:7], ids[3:30]]
    # Other readers of the block bounds require the file's own blocks.
    last = {"folder": str(folder), "overlay": json.dumps({"model": {"decoder": {"filename": "last.onnx"}}})}
    notes = probe.ask({**last, "notes": True})
    if not notes["packed"] or any(state["paged"] for state in notes["states"]):
        yield f"notes: {notes}"
    many = [ids[i:i + 70] for i in range(12)]  # 12 sequences of 5 blocks do not fit 40 at once
    for options in ({}, {"num_beams": 3, "num_return_sequences": 3}):
        got, expected = (probe.generate(m, prompts + many, max_new_tokens=20, **options) for m in (last, plain))
        if [[s["ids"] for s in row] for row in got] != [[s["ids"] for s in row] for row in expected]:
            yield f"from the file's blocks, {options}: {got}, expected {expected}"
    for target in ("ref", "cpu"):
        paged = {"folder": str(folder), "target": target}
        got = probe.generate(paged, [prompt], max_length=len(ids))[0][0]["ids"]
        if prompt + got != ids:
            yield f"greedy on {target}: {got}, expected {ids}"
        for parts in ((), (16,), (5, 1)):
            distance = np.abs(probe.logits(paged, prompts, parts) - probe.logits(plain, prompts)).max()
            if not distance <= 5e-5:
                yield f"logits on {target} in parts of {parts} are {distance} away"
        options = {"max_new_tokens": 20, "num_beams": 3, "num_return_sequences": 3}
        got, expected = (probe.generate(m, prompts, **options) for m in (paged, plain))
        if [[s["ids"] for s in row] for row in got] != [[s["ids"] for s in row] for row in expected]:
            yield f"beams on {target}: {got}, expected {expected}"


def check_synthetic(probe):
    """Its next token is the first plus the last plus the token count, modulo 64."""
    model = {"folder": str(SYNTHETIC)}
    notes = probe.ask({**model, "notes": True})
    if not notes["packed"] or len(notes["states"]) != 2 or any(state["paged"] for state in notes["states"]):
        yield f"notes: {notes}"
    prompts = [[5], [7, 9, 30, 2, 2, 11], [63] * 17]
    got = probe.generate(model, prompts, max_new_tokens=30)
    for prompt, sequence in zip(prompts, got):
        tokens = list(prompt)
        while len(tokens) < len(prompt) + 30:
            tokens.append((tokens[0] + tokens[-1] + len(tokens)) % 64)
            if tokens[-1] == 1:  # end token
                break
        if prompt + sequence[0]["ids"] != tokens:
            yield f"synthetic: {sequence[0]['ids']}, expected {tokens}"
    try:
        yield f"expected a refusal: {probe.logits(model, [[5, 6]])}"
    except Refused as refused:
        if "the program returns only the last" not in str(refused):
            yield f"expected a refusal: {refused}"


def main():
    passed, failed, skipped = 0, 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        for path, check in ((STORIES, lambda: check_stories(probe, pathlib.Path(work))),
                            (SYNTHETIC, lambda: check_synthetic(probe))):
            if not path.exists():
                print(f"skipped: missing {path}")
                skipped += 1
                continue
            problems = list(check())
            for problem in problems:
                print(f"wrong: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
