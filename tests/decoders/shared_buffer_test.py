# SPDX-License-Identifier: MIT
"""A tiny GPT-2 whose pasts have unused slots, with and without RoPE: packed, with equal logits for any chunks and for
pasts with and without unused slots."""

import json
import pathlib
import shutil
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

from probe import Probe

GPT2 = pathlib.Path("../shared/models/genai/hf-internal-testing/tiny-random-gpt2-fp32")
PROMPTS = [[0, 0, 195, 731, 5, 9, 12, 400, 2, 2, 17], [7, 3], [0, 0, 0, 52, 31]]


def rewrite(folder, room, rotary):
    shutil.copytree(GPT2, folder)
    model = onnx.load(folder / "past.onnx")
    for node in model.graph.node:
        if node.op_type != "Attention":
            continue
        if room:
            node.input.extend([""] * (6 - len(node.input)) + ["past_sequence_length"])
            node.attribute.append(helper.make_attribute("past_present_share_buffer", 1))
        if rotary:
            node.attribute.append(helper.make_attribute("do_rotary", 1))
    if room:
        model.graph.input.append(helper.make_tensor_value_info("past_sequence_length", TensorProto.INT32, [1]))
        for value in [*model.graph.input, *model.graph.output]:
            if "past_" in value.name or "present_" in value.name:
                if len(value.type.tensor_type.shape.dim) == 5:
                    value.type.tensor_type.shape.dim[3].dim_param = "room"
        config = json.loads((folder / "genai_config.json").read_text())
        config["model"]["decoder"]["inputs"]["past_sequence_length"] = "past_sequence_length"
        (folder / "genai_config.json").write_text(json.dumps(config))
    onnx.save(model, folder / "past.onnx")
    return {"folder": str(folder)}


def check(probe, work):
    logits = {}
    for room in (False, True):
        for rotary in (False, True):
            model = rewrite(work / f"gpt2_{room}_{rotary}", room, rotary)
            for target in ("ref", "cpu"):
                own = {**model, "target": target}
                notes = probe.ask({**own, "notes": True})
                if not notes["packed"]:
                    yield f"room: {room}, rotary: {rotary}: {notes['not_packed_reason']}"
                got = logits[room, rotary, target] = probe.logits(own, PROMPTS).tobytes()
                for parts in ((1,), (4, 1, 16)):
                    if probe.logits(own, PROMPTS, parts).tobytes() != got:
                        yield f"room: {room}, rotary: {rotary} on {target}: parts of {parts} change bits"
    for (room, rotary, target), got in logits.items():
        if got != logits[False, rotary, target]:
            yield f"unused slots change bits, rotary: {rotary} on {target}"
        if got == logits[room, not rotary, target]:
            yield "RoPE changes nothing"


def main():
    if not GPT2.exists():
        print(f"skipped 1: missing {GPT2}\n0 passed, 0 failed, 1 skipped")
        return 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        problems = list(check(probe, pathlib.Path(work)))
    for problem in problems:
        print(f"wrong: {problem[:600]}", file=sys.stderr)
    print(f"{int(not problems)} passed, {int(bool(problems))} failed, 0 skipped")
    return 1 if problems else 0


sys.exit(main())
