# SPDX-License-Identifier: MIT
"""Splits the decoder of make_decoder.py into files of a pipeline with separate prefill and decode stages: one embedding
for both, layers and a head for each.

usage: make_stages.py FOLDER [CHANGE …]        requires the Python packages onnx and numpy

Changes of prefill: `negated` negates its logits, which identifies the stage that ran; `mixed` adds 0 times the largest
element of all tokens, so that tokens cannot be packed; `short=N` limits its cos/sin caches to N positions; `wide` has
more KV heads.
Changes of decode: `single` fixes the token axis to 1; `fixed` ends the layers in a reshape to one token.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN = 64


def extract(model, inputs, outputs):
    """The nodes from these inputs to these outputs, with their constants."""
    needed, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if needed & set(node.output) and not set(inputs) & set(node.output):
            nodes.insert(0, node)
            needed |= set(node.input)
    known = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    def info(name):
        return known.get(name) or helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "sequence", HIDDEN])
    tensors = [t for t in model.graph.initializer if t.name in needed]
    graph = helper.make_graph(nodes, "stage", [info(n) for n in inputs], [info(n) for n in outputs], tensors)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def replace(model, name, change):
    """Replaces a constant c by change(c)."""
    tensor = next(t for t in model.graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))


def add_mixture(model, output):
    """Adds 0 · (largest element of all tokens) to the output."""
    for node in model.graph.node:
        node.output[:] = [f"{name}_own" if name == output else name for name in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "nothing"))
    model.graph.node.extend([helper.make_node("ReduceMax", [f"{output}_own"], ["largest"], keepdims=1),
                             helper.make_node("Mul", ["largest", "nothing"], ["none"]),
                             helper.make_node("Add", [f"{output}_own", "none"], [output])])


def widen_caches(model):
    for value in (*model.graph.input, *model.graph.output):
        if value.name.startswith(("past", "present")):
            value.type.tensor_type.shape.dim[1].dim_value *= 2
    for node in model.graph.node:
        if node.op_type == "GroupQueryAttention":
            sizes = {a.name: a for a in node.attribute}
            sizes["kv_num_heads"].i *= 2
    for name in ("qkv0", "qkv1"):
        # [queries | keys | values] of 4 + 2 + 2 heads: keys and values twice.
        replace(model, name, lambda w: np.concatenate([w[:, :64], w[:, 64:96], w[:, 64:96], w[:, 96:], w[:, 96:]], 1))


def add_reshape(model, output):
    """Reshapes to one token."""
    for node in model.graph.node:
        node.output[:] = [f"{name}_own" if name == output else name for name in node.output]
    form = np.array([1, 1, HIDDEN], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(form, "form"))
    model.graph.node.append(helper.make_node("Reshape", [f"{output}_own", "form"], [output]))


def fix_tokens(model):
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "sequence":
                dim.dim_value = 1


def make(folder, changes=()):
    """Writes whole/, the decoder in one file, and the pipeline; returns the pipeline's configuration."""
    whole = folder / "whole"
    whole.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, pathlib.Path(__file__).with_name("make_decoder.py"), whole], check=True)
    model = onnx.load(whole / "model.onnx")
    pasts = [v.name for v in model.graph.input if v.name.startswith("past")]
    presents = [v.name for v in model.graph.output if v.name.startswith("present")]
    layers, head = (["x0", "attention_mask", *pasts], ["x2", *presents]), (["x2"], ["logits"])
    stages = {"embeds": (["input_ids"], ["x0"]), "prompt_layers": layers, "token_layers": layers,
              "prompt_head": head, "token_head": head}
    if "single" in changes:
        stages = {"prompt_embeds": stages["embeds"], "token_embeds": stages.pop("embeds"), **stages}
    pipeline = {}
    for name, (inputs, outputs) in stages.items():
        part = extract(model, inputs, outputs)
        for change in changes:
            if name == "prompt_head" and change == "negated":
                replace(part, "head", np.negative)
            elif name == "prompt_layers" and change == "mixed":
                add_mixture(part, "x2")
            elif name.startswith("token") and change == "single":
                fix_tokens(part)
            elif name == "token_layers" and change == "fixed":
                add_reshape(part, "x2")
            elif name == "prompt_layers" and change == "wide":
                widen_caches(part)
            elif name == "prompt_layers" and change.startswith("short="):
                for table in ("cos", "sin"):
                    replace(part, table, lambda t: t[:int(change[6:])])
        onnx.save(part, folder / f"{name}.onnx")
        pipeline[name] = {"filename": f"{name}.onnx", "inputs": inputs, "outputs": outputs}
        if name.startswith("prompt"):
            pipeline[name]["run_on_token_gen"] = False
        if name.startswith("token"):
            pipeline[name]["run_on_prompt"] = False
    config = json.loads((whole / "genai_config.json").read_text())
    config["model"]["type"] = "decoder-pipeline"
    del config["model"]["decoder"]["filename"]
    config["model"]["decoder"]["pipeline"] = [pipeline]
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return config


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]), sys.argv[2:])
