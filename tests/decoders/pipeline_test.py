# SPDX-License-Identifier: MIT
"""A decoder split into files by genai_config.json's pipeline: same tokens and logits as in one file."""

import copy
import json
import pathlib
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

from probe import Probe, Refused

STORIES = pathlib.Path("../shared/models/llm/stories260k-onnx")
WHOLE = {"folder": str(STORIES), "overlay": json.dumps({"model": {"decoder": {"filename": "model_genai.onnx"}}})}


def cut(folder):
    """Embedding, layers and head, each in a file; the head's input has another name."""
    model = onnx.load(STORIES / "model_genai.onnx")
    graph = model.graph
    first = next(n for n in graph.node if n.op_type == "Gather" and "input_ids" in n.input)
    head = next(n for n in graph.node if "logits" in n.output)
    tokens, hidden = first.output[0], head.input[0]
    known = {v.name: v for v in (*graph.input, *graph.output)}
    states = [name for name in known if name.startswith("past")]
    presents = [v.name for v in graph.output if v.name != "logits"]

    def save(name, inputs, outputs):
        needed, nodes = set(outputs), []
        for node in reversed(graph.node):
            if needed & set(node.output) and not set(inputs) & set(node.output):
                nodes.insert(0, node)
                needed |= set(node.input)
        def info(value):
            shape = ["batch_size", "sequence_length", 64]
            return known.get(value) or helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
        part = helper.make_graph(nodes, name, [info(v) for v in inputs], [info(v) for v in outputs],
                                 [t for t in graph.initializer if t.name in needed])
        for node in part.node:  # the name that the previous stage forwards
            if name == "head":
                node.input[:] = ["last_hidden" if value == hidden else value for value in node.input]
        if name == "head":
            part.input[0].name = "last_hidden"
        onnx.save(helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version),
                  folder / f"{name}.onnx")

    save("embeds", ["input_ids"], [tokens])
    save("layers", [tokens, "attention_mask", *states], [hidden, *presents])
    save("head", [hidden], ["logits"])
    config = json.loads((STORIES / "genai_config.json").read_text())
    config["model"]["type"] = "decoder-pipeline"
    decoder = config["model"]["decoder"]
    del decoder["filename"]
    decoder["inputs"].pop("position_ids", None)
    decoder["pipeline"] = [{
        "embeds": {"filename": "embeds.onnx", "inputs": ["input_ids"], "outputs": [tokens]},
        "layers": {"filename": "layers.onnx", "inputs": [tokens, "attention_mask", *states],
                   "outputs": [hidden, *presents], "output_names_forwarder": {hidden: "last_hidden"}},
        "head": {"filename": "head.onnx", "inputs": ["last_hidden"], "outputs": ["logits"], "is_lm_head": True},
    }]
    (folder / "genai_config.json").write_text(json.dumps(config))
    return config


def check(probe, folder):
    config = cut(folder)
    expected = json.loads((STORIES / "expected_greedy.json").read_text())["model_genai.onnx"]
    prompt, ids = expected["prompt_ids"], expected["greedy_ids"]
    model = {"folder": str(folder)}
    prompts = [prompt, ids[:50], ids[3:30]]
    got = probe.generate(model, prompts, max_length=len(ids))
    if prompt + got[0][0]["ids"] != ids:
        yield f"greedy: {got[0][0]['ids']}, expected {ids}"
    if got != probe.generate(WHOLE, prompts, max_length=len(ids)):
        yield f"tokens differ from those of one file: {got}"
    for parts in ((), (7,)):
        if probe.logits(model, prompts, parts).tobytes() != probe.logits(WHOLE, prompts, parts).tobytes():
            yield f"logits differ from those of one file, in parts of {parts}"
    def stage(changed, name):
        return changed["model"]["decoder"]["pipeline"][0][name]

    for change, message in (
            (lambda c: stage(c, "head").update(filename="none.onnx"), "none.onnx"),
            (lambda c: stage(c, "head").update(inputs=["hidden"]), "stage 'head' has no input 'hidden'"),
            (lambda c: stage(c, "layers").update(run_on_token_gen=False), "but the model has no such input"),
            (lambda c: stage(c, "layers").pop("output_names_forwarder"), "last_hidden"),
            (lambda c: stage(c, "layers").update(filename="embeds.onnx", inputs=[], outputs=[]), "two parts")):
        changed = copy.deepcopy(config)
        change(changed)
        (folder / "genai_config.json").write_text(json.dumps(changed))
        try:
            yield f"expected '{message}': {probe.generate({**model, 'overlay': '{}'}, [prompt], max_new_tokens=1)}"
        except Refused as refused:
            if message not in str(refused):
                yield f"expected '{message}': {refused}"
        probe.generate(WHOLE, [prompt], max_new_tokens=1)  # reopens the folder


def main():
    if not STORIES.exists():
        print(f"skipped 1: missing {STORIES}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        problems = list(check(probe, pathlib.Path(work)))
    for problem in problems:
        print(f"wrong: {problem[:600]}", file=sys.stderr)
    print(f"{int(not problems)} passed, {int(bool(problems))} failed, 0 skipped")
    return 1 if problems else 0


sys.exit(main())
